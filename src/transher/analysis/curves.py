"""How trainings went: loss, validation MRR, and the spread of the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transher.analysis.page import COLOURS, MARKERS, Section, Subject, canvas
from transher.training.history import read_history


def training_section(subjects: Sequence[Subject]) -> Section:
    """Loss and validation MRR by step, and MRR by time."""
    figure, (loss, by_step, by_time) = canvas(11, 3.4, 3)
    for subject, colour, marker in zip(subjects, _cycle(COLOURS), _cycle(MARKERS), strict=False):
        reports, validations = _lines(subject, "report"), _lines(subject, "validation")
        loss.plot(_column(reports, "step"), _column(reports, "loss"), color=colour, label=subject.drawn)
        mrr = _column(validations, "mrr")
        minutes = [seconds / 60 for seconds in _column(validations, "seconds")]
        for axes, x in ((by_step, _column(validations, "step")), (by_time, minutes)):
            axes.plot(x, mrr, color=colour, marker=marker, markersize=4, label=subject.drawn)
    loss.set(title="Training loss", xlabel="step", yscale="log")
    by_step.set(title="Validation MRR", xlabel="step", ylim=(0, None))
    by_time.set(title="Validation MRR by time", xlabel="minutes of training", ylim=(0, None))
    for axes in (loss, by_step, by_time):
        axes.locator_params(axis="x", nbins=5)
        axes.set_xlim(0, None)
    loss.legend()
    return Section(
        "curves",
        "How the training went",
        "If the validation curve still rises at its right end, more steps would help. If the loss keeps falling while "
        "the curve is flat, the model has begun to overfit. The right panel shows quality against time.",
        figure,
    )


def gradient_section(subjects: Sequence[Subject]) -> Section:
    """Standard deviation of the gradients at the first step of each epoch, for the runs that recorded it."""
    title = "How steady the gradients are"
    recorded = [(subject, lines) for subject in subjects if (lines := _lines(subject, "gradients"))]
    if not recorded:
        return Section(
            "gradients",
            title,
            "None of these runs has recorded its gradients: train with --set validation.record_gradients=true.",
        )
    figure, axes = canvas(9, 3.4, 2)
    for axis, table in zip(axes, ("entities", "relations"), strict=True):
        for (subject, lines), colour, marker in zip(recorded, _cycle(COLOURS), _cycle(MARKERS), strict=False):
            epochs = range(1, len(lines) + 1)
            axis.plot(epochs, _column(lines, table), color=colour, marker=marker, markersize=3, label=subject.drawn)
        axis.set(title=f"Gradients of {table}", xlabel="epoch", ylabel="standard deviation", yscale="log")
    axes[0].legend()
    return Section(
        "gradients",
        title,
        "Standard deviation over the rows of the first batch of each epoch. The paper finds that a translation keeps "
        "the gradients of entities below PairRE's throughout, and those of relations only at the beginning.",
        figure,
    )


def _lines(subject: Subject, kind: str) -> list[dict[str, Any]]:
    return [line for line in read_history(subject.run.folder) if line["kind"] == kind]


def _column(lines: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [float(line.get(name, float("nan"))) for line in lines]


def _cycle(values: Sequence[str]) -> list[str]:
    return list(values) * 4
