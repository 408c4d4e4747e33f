"""What people see in the terminal: tables on standard output, progress on standard error."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
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
from rich.table import Table

from transher.training.watcher import Report, SearchWatcher, Watcher

if TYPE_CHECKING:
    import pandas as pd

    from transher.evaluation.reliability import CalibrationReport
    from transher.evaluation.significance import Comparison
    from transher.graph.statistics import GraphStatistics
    from transher.training.recipe import Recipe

OUTPUT = Console(highlight=False)
MESSAGES = Console(stderr=True, highlight=False)
_SHOWN = 5  # how many patterns of a kind


def note(text: str) -> None:
    MESSAGES.print(text, markup=False)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns whose values are all numbers go to the right."""
    cells = [[cell if isinstance(cell, str) else _number(cell) for cell in row] for row in rows]
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for position, column in enumerate(columns):
        numeric = bool(cells) and all(_looks_numeric(row[position]) for row in cells)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in cells:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    OUTPUT.print(table)


def print_metrics(title: str, rows: dict[str, dict[str, Any]]) -> None:
    """One line of metrics for each name; where there is an interval for the MRR, it stands behind it."""
    print_table(
        title,
        ["", "MRR", "95 % interval", "MR", "H@1", "H@3", "H@10", "queries"],
        (
            (name, f"{row['mrr']:.4f}", _interval(row["intervals"].get("mrr")), f"{row['mr']:.1f}",
             f"{row['hits@1']:.4f}", f"{row['hits@3']:.4f}", f"{row['hits@10']:.4f}", f"{row['count']:,}")
            for name, row in rows.items()
        ),
    )  # fmt: skip


def print_comparison(first: str, second: str, comparison: Comparison) -> None:
    """Two runs on the same queries, in a table and a sentence."""
    print_table(
        f"{first} against {second}, {comparison.queries:,} queries of {comparison.triples:,} triples",
        ["", ""],
        [
            (f"MRR of {first}", f"{comparison.first_mrr:.4f}"),
            (f"MRR of {second}", f"{comparison.second_mrr:.4f}"),
            ("difference", f"{comparison.difference:+.4f}"),
            ("95 % interval", "{:+.4f} to {:+.4f}".format(*comparison.interval)),
            ("p, paired bootstrap", f"{comparison.bootstrap_p:.4g}"),
            ("p, Wilcoxon", f"{comparison.wilcoxon_p:.4g}"),
            ("effect size d_z", "undefined" if comparison.effect_size is None else f"{comparison.effect_size:+.4f}"),
            ("better / worse / equal", f"{comparison.better:.1%} / {comparison.worse:.1%} / {comparison.equal:.1%}"),
        ],
    )


def print_answers(answers: pd.DataFrame, asked: str) -> None:
    """Ranked answers under the query that they answer."""
    if not len(answers):
        OUTPUT.print("No answers: everything that fits is known already.")
        return
    first = answers.iloc[0]
    query = ", ".join("?" if part == asked else str(first[part]) for part in ("head", "relation", "tail"))
    print_table(
        f"({query})",
        ["", "answer", "identifier", "score", "probability", ""],
        (
            (str(row["rank"]), row[asked], row["identifier"], f"{row['score']:.3f}",
             f"{row['probability']:.1%}" if "probability" in row else "", "known" if row["known"] else "")
            for row in answers.to_dict("records")
        ),
    )  # fmt: skip


def print_calibration(report: CalibrationReport) -> None:
    """How far the probabilities can be trusted, before and after calibration, and the diagram as a table."""
    print_table(
        f"{report.graph}, {report.split}: {report.triples:,} triples, each with {report.negatives_per_side} that do "
        f"not hold on either side ({report.base_rate:.1%} hold)",
        ["", "calibration error", "Brier", "log loss"],
        (
            (name, f"{part.calibration_error:.4f}", f"{part.brier:.4f}", f"{part.log_loss:.4f}")
            for name, part in (("σ(score)", report.before), ("calibrated", report.after))
        ),
    )
    print_table(
        "Reliability after calibration",
        ["probability", "mean", "holds", "triples"],
        (
            (f"{bin.start:.2f}–{bin.end:.2f}", f"{bin.probability:.3f}", f"{bin.holds:.3f}", bin.count)
            for bin in report.after.bins
        ),
    )


def _interval(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.4f}–{interval[1]:.4f}"


def print_statistics(statistics: GraphStatistics) -> None:
    """A graph's figures: sizes, degrees, relation types, and the strongest of its patterns."""
    splits = ", ".join(f"{count:,} {split}" for split, count in statistics.triples.items())
    OUTPUT.print(f"{statistics.name}: {statistics.entities:,} entities, {statistics.relations:,} relations; {splits}")
    spreads = {"degree": statistics.degree, "as head": statistics.out_degree, "as tail": statistics.in_degree}
    print_table(
        "Triples per entity",
        ["", "min", "median", "mean", "90 %", "max"],
        ((name, s.minimum, s.median, f"{s.mean:.1f}", s.p90, s.maximum) for name, s in spreads.items()),
    )
    total = max(1, sum(statistics.triples.values()))
    print_table(
        "Relation types, head to tail",
        ["", "relations", "triples", "share"],
        (
            (kind, n["relations"], n["triples"], f"{n['triples'] / total:.1%}")
            for kind, n in statistics.relation_types.items()
        ),
    )
    kinds = {
        "symmetric": statistics.symmetric,
        "inverse": statistics.inverse,
        "duplicate": statistics.duplicate,
        "composed": statistics.composed,
    }
    print_table(
        "Strongest patterns",
        ["pattern", "if", "then", "support", "confidence"],
        (
            (kind, " ∘ ".join(rule.premises), rule.conclusion, rule.support, f"{rule.confidence:.0%}")
            for kind, rules in kinds.items()
            for rule in rules[:_SHOWN]
        ),
    )
    hidden = {kind: len(rules) - _SHOWN for kind, rules in kinds.items() if len(rules) > _SHOWN}
    if hidden:
        OUTPUT.print(f"and {', '.join(f'{count:,} more {kind}' for kind, count in hidden.items())}: see --json")
    leak = statistics.leakage
    OUTPUT.print(
        f"Test triples that training has turned round: {leak.same_relation:.1%} with the same relation, "
        f"{leak.inverse_relation:.1%} with an inverse, {leak.any_relation:.1%} with any."
    )
    duplicates = sum(statistics.duplicate_triples.values())
    overlaps = ", ".join(f"{count:,} in {pair}" for pair, count in statistics.overlaps.items() if count) or "none"
    OUTPUT.print(
        f"Duplicate triples that remain: {duplicates:,}. In two splits: {overlaps}. Without a training triple: "
        f"{statistics.unseen_entities:,} entities, {statistics.unseen_relations:,} relations."
    )


def print_recipe(recipe: Recipe, reason: str) -> None:
    """The settings of a training, on two lines a section."""
    MESSAGES.print(reason, markup=False)
    for section, values in recipe.model_dump().items():
        shown = " ".join(f"{key}={value}" for key, value in values.items())
        MESSAGES.print(f"  [bold]{section}[/bold] {shown}", soft_wrap=False)


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _looks_numeric(text: str) -> bool:
    return text == "" or text.replace(",", "").replace("%", "").lstrip("+-−").replace(".", "", 1).isdigit()


@contextmanager
def progress_bar(what: str, unit: str = "") -> Iterator[Any]:
    """A bar for callbacks of the form (done, total)."""
    with Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn(unit), TimeRemainingColumn(),
        console=MESSAGES, transient=True,
    ) as progress:  # fmt: skip
        task = progress.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield update


@contextmanager
def download_bar() -> Iterator[Any]:
    """A bar for a download, if there is one: callbacks of the form (file, done, total or None)."""
    with Progress(
        TextColumn("downloading {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(), console=MESSAGES, transient=True,
    ) as progress:  # fmt: skip
        tasks: dict[str, TaskID] = {}

        def update(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = progress.add_task(file, total=total)
            progress.update(tasks[file], completed=done, total=total)

        yield update


class TrainingDisplay(Watcher):
    """A bar with loss, speed and time left, and a line for each validation."""

    def __enter__(self) -> TrainingDisplay:
        self._progress = Progress(
            TextColumn("training"), BarColumn(), TextColumn("{task.completed}/{task.total} steps"),
            TextColumn("{task.fields[numbers]}"), TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
            console=MESSAGES,
        )  # fmt: skip
        self._progress.start()
        self._task: TaskID | None = None
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def report(self, report: Report) -> None:
        if self._task is None:
            self._task = self._progress.add_task("", total=report.steps, numbers="", left="")
        self._progress.update(
            self._task,
            completed=report.step,
            numbers=f"loss {report.loss:.4f} · {report.triples_per_second:,.0f} triples/s",
            left=f"{_span(report.seconds_left)} left",
        )

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
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"), console=MESSAGES
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
        self._progress.print(
            f"trial {number:>3}  {figure}  {how}{mark}  {self._settings.get(number, '')}", markup=False
        )


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes}:{rest:02}"
