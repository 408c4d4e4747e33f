"""The queue refuses what it cannot hold, and recovers."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from transher.deadline import DeadlineError, deadline, made_once, slices
from transher.serving.workers import BusyError, Workers


def test_what_does_not_fit_the_queue_is_refused_at_once() -> None:
    async def scene() -> None:
        gate = threading.Event()
        crew = Workers(threads=1, queue=1)
        running = [asyncio.create_task(crew.run(gate.wait, 300)) for _ in range(2)]
        await asyncio.sleep(0)  # both begin
        with pytest.raises(BusyError):
            await crew.run(int)
        gate.set()
        assert await asyncio.gather(*running) == [True, True]
        assert crew.pending == 0
        assert await crew.run(int) == 0
        crew.stop()

    asyncio.run(scene())


def test_a_computation_that_nobody_waits_for_any_more_stops_and_frees_its_thread() -> None:
    done: list[int] = []

    def table() -> None:
        for part in slices(10_000, 1):
            time.sleep(0.01)
            done.append(part.start)

    async def scene() -> None:
        crew = Workers(threads=1, seconds=0.1)
        with pytest.raises(BusyError, match="longer than"):
            await crew.run(table)
        crew.seconds = 300
        assert await crew.run(int) == 0  # the first, which would take a hundred seconds, was stopped
        assert crew.pending <= 1
        crew.stop()

    asyncio.run(scene())
    assert len(done) < 1000


def test_who_waits_for_what_another_makes_waits_no_longer_than_the_deadline() -> None:
    lock = threading.Lock()
    with lock, deadline(time.monotonic() + 0.05), pytest.raises(DeadlineError), made_once(lock):
        pass
    with deadline(0), made_once(lock):
        assert list(slices(2, 1))  # who makes it goes on
    assert not lock.locked()


def test_what_takes_too_long_is_given_up_and_still_counts_as_waiting() -> None:
    async def scene() -> None:
        gate = threading.Event()
        crew = Workers(threads=1, queue=4, seconds=0.05)
        with pytest.raises(BusyError):
            await crew.run(gate.wait, 300)
        assert crew.pending == 1
        gate.set()
        async with asyncio.timeout(300):
            while crew.pending:
                await asyncio.sleep(0.01)
        crew.stop()

    asyncio.run(scene())
