"""The picture of a training: its loss and its validation MRR by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from transher.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOSS_COLOUR, _MRR_COLOUR = "#0072B2", "#D55E00"  # which people with any colour vision tell apart


def plot_history(history: pd.DataFrame, title: str, axes: Axes | None = None) -> Axes:
    """Draw the loss on `axes`, on new ones unless given, and the validation MRR on a second scale to their right."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UsageError(
            "plot_history needs matplotlib, which is not installed: pip install matplotlib. "
            "The same figures are in history()."
        ) from None
    if axes is None:
        _, axes = pyplot.subplots()
    reports, validations = (history[history["kind"] == kind] for kind in ("report", "validation"))
    axes.set(title=title, xlabel="step")
    axes.set_ylabel("training loss", color=_LOSS_COLOUR)
    if len(reports) and "loss" in reports:  # rules have none
        axes.plot(reports["step"], reports["loss"], color=_LOSS_COLOUR)
        axes.set_yscale("log")
    if len(validations) and "mrr" in validations:
        right = axes.twinx()
        right.plot(validations["step"], validations["mrr"], color=_MRR_COLOUR, marker="o", markersize=4)
        right.set_ylabel("validation MRR", color=_MRR_COLOUR)
        right.set_ylim(0, None)
    return axes
