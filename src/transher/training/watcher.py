"""Who watches a training hears how it is doing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """How a training is doing."""

    step: int
    steps: int
    loss: float
    triples_per_second: float
    seconds_left: float


class Watcher:
    """Hears of a training's progress, and does nothing with it."""

    def report(self, report: Report) -> None:
        """Some more steps are done."""

    def validated(self, step: int, mrr: float, best: bool) -> None:
        """Validation triples were ranked; `best` if never better."""
