"""Questions that wait together are answered together, each with its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from transher.serving.gathering import Gathering
from transher.serving.workers import BusyError, Workers


def test_what_waits_together_is_asked_together_and_one_failure_is_nobody_elses() -> None:
    sizes: list[int] = []
    gate = threading.Event()

    def answer_all(questions: Sequence[int]) -> list[int | Exception]:
        gate.wait(300)
        sizes.append(len(questions))
        return [ValueError("three") if question == 3 else 10 * question for question in questions]

    async def scene() -> list[int | BaseException]:
        crew = Workers(threads=1)
        gathering = Gathering(crew, answer_all)
        tasks = [asyncio.create_task(gathering.ask(number)) for number in range(6)]
        await asyncio.sleep(0.05)
        late = asyncio.create_task(gathering.ask(6))
        await asyncio.sleep(0.05)
        gate.set()
        answers = await asyncio.gather(*tasks, late, return_exceptions=True)
        assert await gathering.ask(7) == 70  # and it goes on
        crew.stop()
        return answers

    answers = asyncio.run(scene())
    assert isinstance(answers.pop(3), ValueError)
    assert answers == [0, 10, 20, 40, 50, 60]
    assert sum(sizes) == 8
    assert len(sizes) < 8


def test_too_many_questions_are_refused() -> None:
    async def scene() -> None:
        begun, gate = threading.Event(), threading.Event()
        crew = Workers(threads=1, queue=1)

        def answer_all(questions: Sequence[int]) -> list[int]:
            begun.set()
            gate.wait(300)
            return list(questions)

        gathering: Gathering[int, int] = Gathering(crew, answer_all)
        first = asyncio.create_task(gathering.ask(0))
        await asyncio.to_thread(begun.wait, 300)
        rest = [asyncio.create_task(gathering.ask(number)) for number in range(1, 6)]
        await asyncio.sleep(0.05)
        gate.set()
        answers = await asyncio.gather(first, *rest, return_exceptions=True)
        assert answers[:3] == [0, 1, 2]
        assert all(isinstance(answer, BusyError) for answer in answers[3:])
        crew.stop()

    asyncio.run(scene())
