"""How far the probabilities of the runs can be trusted: the reliability diagram of what people are shown."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from transher.analysis.page import COLOURS, GREY, MARKERS, PALE, Cells, Section, Subject, as_drawn, canvas
from transher.answering.trials import BEST, CalibrationReport
from transher.evaluation.reliability import Reliability

_COLUMNS = 3
_DOTS = 20.0, 140.0  # smallest and largest, in square points


def reliability_section(subjects: Sequence[Subject]) -> Section | None:
    """Share of facts that hold against the probability that they were given, tried on the test triples; None where no
    run has a judge and test triples."""
    judged = [
        (subject.label, subject.run.calibration_report())
        for subject in subjects
        if subject.run.judge is not None and len(subject.run.graph.test)
    ]
    if not judged:
        return None
    columns = min(len(judged), _COLUMNS)
    rows = -(-len(judged) // columns)
    figure, axes = canvas(max(3.8 * columns, 5.2), 3.8 * rows, columns, rows)
    for place, (axis, (label, report)) in enumerate(zip(axes, judged, strict=False)):
        _diagram(axis, report, COLOURS[place % len(COLOURS)])
        axis.set(title=as_drawn(label), ylabel="share that holds" if place % columns == 0 else "")
    for unused in axes[len(judged) :]:
        unused.set_axis_off()
    headers = ["", *(f"best {count:,}" for count in BEST), "first three answers", "Brier score", "by Platt's method"]
    return Section(
        "reliability",
        "How far probabilities can be trusted",
        "The test triples are hidden, and the run names the most probable facts: the best 10,000 of a completion and "
        "the first three answers to random queries. On the diagonal a probability is right, below it is too high; "
        "larger dots stand for more facts. Platt's method, fitted on random corruptions, is shown for comparison. "
        "The table has mean probability / share that holds, and the Brier score, the mean squared error, of both. Only "
        "test triples count as right, so shares are lower bounds.",
        figure,
        [Cells(headers, [_figures(label, report) for label, report in judged])],
    )


def _diagram(axis: Axes, report: CalibrationReport, colour: str) -> None:
    axis.plot([0, 1], [0, 1], color=PALE, linewidth=1.5, zorder=0)
    _dots(axis, report.former, GREY, MARKERS[1], "Platt's method")
    _dots(axis, report.shown, colour, MARKERS[0], "judge")
    axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="probability given", aspect="equal")
    axis.legend(loc="best")


def _dots(axis: Axes, found: Reliability, colour: str, marker: str, label: str) -> None:
    given, holds = [bin.probability for bin in found.bins], [bin.holds for bin in found.bins]
    most = max(bin.count for bin in found.bins)
    smallest, largest = _DOTS
    # By the root of the count: most of what is drawn has almost no probability, and would leave specks of the rest.
    sizes = [smallest + (largest - smallest) * (bin.count / most) ** 0.5 for bin in found.bins]
    axis.plot(given, holds, color=colour, linewidth=1)
    axis.scatter(given, holds, sizes, color=colour, marker=marker, label=label, linewidths=0, alpha=0.85)


def _figures(label: str, report: CalibrationReport) -> list[str]:
    promises = [*report.best, report.first_answers]
    shares = [f"{promise.probability:.3f} / {promise.holds:.3f}" for promise in promises]
    return [label, *shares, f"{report.shown.brier:.4f}", f"{report.former.brier:.4f}"]
