"""Questions that wait at the same time are asked in one go: the table of entities then goes by once for all of them.

A lone question is asked at once. With 32 waiting, a pass over FB15k-237 takes three times as long as for one alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from transher.serving.workers import BusyError, Workers

Question = TypeVar("Question")
Answer = TypeVar("Answer")

TOGETHER = 32


class Gathering(Generic[Question, Answer]):
    """`answer_all` gives an answer, or the exception, for each of several questions."""

    def __init__(self, crew: Workers, answer_all: Callable[[Sequence[Question]], Sequence[Answer | Exception]]) -> None:
        self._crew, self._answer_all = crew, answer_all
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._draining: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> Answer:
        if len(self._waiting) >= self._crew.capacity:
            raise BusyError(f"{len(self._waiting)} questions are waiting already: try again in a second.")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        try:
            return await asyncio.wait_for(future, self._crew.seconds)
        except TimeoutError:
            raise BusyError(f"This took longer than {self._crew.seconds:g} seconds.", retry_after=5) from None

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
                await self._answer([(question, future) for question, future in batch if not future.done()])
        finally:
            self._draining = None

    async def _answer(self, batch: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        answers: Sequence[Answer | Exception]
        try:
            answers = await self._crew.run(self._answer_all, [question for question, _ in batch])
        except Exception as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():  # who asked has gone
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
