"""Threads that compute, and a short queue before them: what does not fit is refused at once instead of piling up."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from transher.deadline import DeadlineError, deadline

Result = TypeVar("Result")

QUEUE = 64
SECONDS = 30.0


class BusyError(Exception):
    """There is more to do than the queue holds, or it took too long. `retry_after` is in seconds."""

    def __init__(self, reason: str, retry_after: int = 1) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Workers:
    """Runs functions on the run's one copy of the tables. Threads do: kernels let go of Python while they count."""

    def __init__(self, threads: int | None = None, queue: int = QUEUE, seconds: float | None = None) -> None:
        # Each kernel call already uses all cores: two calls keep them busy while Python writes an answer.
        self.threads = threads or min(2, os.cpu_count() or 1)
        self.capacity, self.seconds = self.threads + queue, SECONDS if seconds is None else seconds
        self.pending = 0
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="transher")

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        if self.pending >= self.capacity:
            raise BusyError(f"{self.pending} requests are waiting already: try again in a second.")
        self.pending += 1
        end = time.monotonic() + self.seconds
        work: Future[Result] = self._pool.submit(_until, end, partial(function, *arguments))
        loop = asyncio.get_running_loop()
        # Counted down when the thread is through, not when the client has gone.
        work.add_done_callback(lambda _: self._count_down(loop))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work), self.seconds)
        except (TimeoutError, DeadlineError):
            raise BusyError(f"This took longer than {self.seconds:g} seconds.", retry_after=5) from None

    def _count_down(self, loop: asyncio.AbstractEventLoop) -> None:
        def less() -> None:
            self.pending -= 1

        if not loop.is_closed():
            loop.call_soon_threadsafe(less)

    def stop(self) -> None:
        """Drops what waits and lets what computes come to its end."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _until(end: float, function: Callable[[], Result]) -> Result:
    """In the thread: a computation past its deadline stops at its next chunk, and the thread is free."""
    with deadline(end):
        return function()
