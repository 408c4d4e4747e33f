"""Watchers of a training or a search: they hear how it is doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Report:
    """How a training is doing."""

    step: int
    steps: int
    loss: float
    triples_per_second: float
    seconds_left: float
    at_most: bool = False  # whether the training may end sooner than after `steps`


@dataclass(frozen=True)
class Mined:
    """How a mining is doing."""

    blocks: int  # of work
    rules: int
    seconds: float
    limit: float  # of the seconds


class Watcher:
    """Hears of a training's progress, and does nothing with it."""

    def began(self, what: str, seconds_left: float | None = None) -> None:
        """A part of the work begins. seconds_left: of all parts together, where that is known."""

    def mined(self, mined: Mined) -> None:
        """Some more rules were looked for."""

    def report(self, report: Report) -> None:
        """Some more steps are done."""

    def validated(self, step: int, mrr: float, best: bool) -> None:
        """Validation triples were ranked; `best` if never better."""

    def fitting(self, done: int, total: int) -> None:
        """So many of the pairs of entities that the judge learns from have gone by."""

    def noticed(self, message: str) -> None:
        """Something that the user should know: why the training ends early, or that it does not learn."""


class SearchWatcher:
    """Hears of a search's progress, and does nothing with it."""

    def opened(self, best: float | None) -> None:
        """A search is resumed, whose best so far is this; None for a new one."""

    def started(self, number: int, settings: dict[str, Any]) -> None:
        """A trial begins."""

    def progressed(self, number: int, step: int, steps: int) -> None:
        """Some more of its steps are done."""

    def ended(self, number: int, mrr: float | None, how: str) -> None:
        """A trial is finished, pruned, out of time or diverged; mrr is what it counts for, None for nothing."""
