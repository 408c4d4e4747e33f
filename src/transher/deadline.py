"""A time after which an answer is no longer needed: long loops check it between their chunks, and stop.

It is set for all that a thread does inside the block. Between a server's thread that sets it and the loop over the
table that asks lie many functions that have nothing to do with it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from transher.errors import TransherError

_end: ContextVar[float] = ContextVar("deadline", default=math.inf)


class DeadlineError(TransherError):
    """The time was up before the work was done."""

    def __init__(self) -> None:
        super().__init__("This took longer than it may.")


@contextmanager
def deadline(end: float) -> Iterator[None]:
    """What runs inside stops with a DeadlineError at its next check after `end`, in seconds of `time.monotonic`."""
    before = _end.set(end)
    try:
        yield
    finally:
        _end.reset(before)


def check_deadline() -> None:
    if time.monotonic() > _end.get():
        raise DeadlineError


def slices(count: int, size: int) -> Iterator[slice]:
    """0…count in consecutive slices of at most `size`, with a check of the deadline before each."""
    for start in range(0, count, size):
        check_deadline()
        yield slice(start, min(start + size, count))


@contextmanager
def made_once(lock: threading.Lock) -> Iterator[None]:
    """For what one thread makes and all use. Who makes it comes to the end, or it would be begun anew each time and
    never be done; who waits for it waits no longer than the deadline."""
    left = max(0.0, min(_end.get() - time.monotonic(), threading.TIMEOUT_MAX))
    if not lock.acquire(timeout=left):
        raise DeadlineError
    try:
        with deadline(math.inf):
            yield
    finally:
        lock.release()
