"""The queue refuses what it cannot hold, and recovers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from transher.serving.workers import BusyError, Workers


def test_what_does_not_fit_the_queue_is_refused_at_once() -> None:
    async def scene() -> None:
        gate = threading.Event()
        crew = Workers(threads=1, queue=1)
        running = [asyncio.create_task(crew.run(gate.wait, 10)) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError):
            await crew.run(int)
        gate.set()
        assert await asyncio.gather(*running) == [True, True]
        await asyncio.sleep(0.05)
        assert crew.pending == 0
        assert await crew.run(int) == 0
        crew.stop()

    asyncio.run(scene())


def test_what_takes_too_long_is_given_up_and_still_counts_as_waiting() -> None:
    async def scene() -> None:
        gate = threading.Event()
        crew = Workers(threads=1, queue=4, seconds=0.05)
        with pytest.raises(BusyError):
            await crew.run(gate.wait, 10)
        assert crew.pending == 1
        gate.set()
        await asyncio.sleep(0.1)
        assert crew.pending == 0
        crew.stop()

    asyncio.run(scene())
