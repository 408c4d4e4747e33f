"""How far the probabilities of the runs can be trusted: the reliability diagram before and after calibration."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from transher.analysis.page import COLOURS, GREY, MARKERS, PALE, Cells, Section, Subject, as_drawn, canvas
from transher.evaluation.reliability import CalibrationReport, Reliability

_COLUMNS = 3
_DOTS = 20.0, 140.0  # smallest and largest, in square points


def reliability_section(subjects: Sequence[Subject]) -> Section | None:
    """Share of test triples that hold against the probability that they were given; None without calibration."""
    judged = [
        (subject.label, subject.run.calibration_report("test"))
        for subject in subjects
        if subject.run.calibration is not None
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
    first = judged[0][1]
    headers = ["", "calibration error before", "after", "Brier score before", "after"]
    return Section(
        "reliability",
        "How far probabilities can be trusted",
        f"Test triples and {first.negatives_per_side} drawn ones on either side of each; {first.base_rate:.1%} of all "
        "hold. On the diagonal a probability is right, below it is too high. Before is σ(score), after is calibrated "
        "for this share of triples that hold; larger dots stand for more triples. The calibration error is the mean "
        "distance from the diagonal, the Brier score the mean squared error; lower is better.",
        figure,
        [Cells(headers, [_figures(label, report) for label, report in judged])],
    )


def _diagram(axis: Axes, report: CalibrationReport, colour: str) -> None:
    axis.plot([0, 1], [0, 1], color=PALE, linewidth=1.5, zorder=0)
    _dots(axis, report.before, GREY, MARKERS[1], "before")
    _dots(axis, report.after, colour, MARKERS[0], "after")
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
    errors = (report.before.calibration_error, report.after.calibration_error)
    return [label, *(f"{value:.4f}" for value in (*errors, report.before.brier, report.after.brier))]
