"""What people see while they wait: bars and lines on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from transher.cli.display import MESSAGES
from transher.training.watcher import Mined, Report, SearchWatcher, Watcher
from transher.visible import shown


@contextmanager
def progress_bar(what: str, unit: str = "") -> Iterator[Any]:
    """A bar for callbacks of the form (done, total)."""
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn(unit),
        TimeRemainingColumn(),
        console=MESSAGES,
        transient=True,
    ) as progress:
        task = progress.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield update


@contextmanager
def download_bar() -> Iterator[Any]:
    """A bar for a download, if there is one: callbacks of the form (file, done, total or None)."""
    with Progress(
        TextColumn("downloading {task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=MESSAGES,
        transient=True,
    ) as progress:
        tasks: dict[str, TaskID] = {}

        def update(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(shown(file), total=total)
            progress.update(tasks[file], completed=done, total=total)

        yield update


class TrainingDisplay(Watcher):
    """A bar with loss, speed and time left, and a line for each validation."""

    def __enter__(self) -> TrainingDisplay:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[unit]}"),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=MESSAGES,
        )
        self._progress.start()
        self._task: TaskID | None = None
        self._fitting: TaskID | None = None
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def began(self, what: str, seconds_left: float | None = None) -> None:
        for task in (self._task, self._fitting):
            if task is not None:
                self._progress.remove_task(task)
        self._task = self._fitting = None
        left = "" if seconds_left is None else f"; about {_span(seconds_left)} left in all"
        self._progress.print(f"{what}{left}.", markup=False)

    def report(self, report: Report) -> None:
        if self._task is None:
            self._task = self._progress.add_task("training", total=report.steps, unit="steps", numbers="", left="")
        self._progress.update(
            self._task,
            completed=report.step,
            numbers=f"loss {report.loss:.4f} · {report.triples_per_second:,.0f} triples/s",
            left=f"{'at most ' if report.at_most else ''}{_span(report.seconds_left)} left",
            total=report.steps,
        )

    def mined(self, mined: Mined) -> None:
        if self._task is None:
            self._task = self._progress.add_task("mining", total=mined.limit, unit="seconds", numbers="", left="")
        self._progress.update(self._task, completed=mined.seconds, numbers=f"{mined.rules:,} rules")

    def fitting(self, done: int, total: int) -> None:
        if self._fitting is None:
            self._fitting = self._progress.add_task("fitting", total=1, unit="", numbers="probabilities", left="")
        self._progress.update(self._fitting, completed=done, total=total, unit="pairs")

    def noticed(self, message: str) -> None:
        self._progress.print(message, markup=False)

    def validated(self, step: int, mrr: float, best: bool) -> None:
        self._progress.print(f"step {step:>7,}  validation MRR {mrr:.4f}{'  (best)' if best else ''}")


class SearchDisplay(SearchWatcher):
    """A bar for the trial at hand, and a line for each that has ended."""

    def __init__(self, minutes: float | None) -> None:
        self._ends = None if minutes is None else time.monotonic() + 60 * minutes
        self._best: float | None = None
        self._settings: dict[int, str] = {}

    def __enter__(self) -> SearchDisplay:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            console=MESSAGES,
        )
        self._progress.start()
        self._task = self._progress.add_task("searching", total=None, left="")
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def opened(self, best: float | None) -> None:
        self._best = best

    def started(self, number: int, settings: dict[str, Any]) -> None:
        shown = (
            f"{key.partition('.')[2]}={value:.3g}" if isinstance(value, float) else f"{key.partition('.')[2]}={value}"
            for key, value in settings.items()
        )
        self._settings[number] = " ".join(shown)
        self._progress.update(self._task, description=f"trial {number}", completed=0)

    def progressed(self, number: int, step: int, steps: int) -> None:
        left = "" if self._ends is None else f"{_span(max(0.0, self._ends - time.monotonic()))} left"
        self._progress.update(self._task, completed=step, total=steps, left=left)

    def ended(self, number: int, mrr: float | None, how: str) -> None:
        figure = "      " if mrr is None else f"{mrr:.4f}"
        best = mrr is not None and (self._best is None or mrr > self._best)
        self._best = mrr if best else self._best
        mark = "  (best)" if best else ""
        settings = shown(self._settings.get(number, ""))
        self._progress.print(f"trial {number:>3}  {figure}  {how}{mark}  {settings}", markup=False)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes}:{rest:02}"
