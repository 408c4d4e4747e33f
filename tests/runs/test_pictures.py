from __future__ import annotations

import sys
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot

import transher
from transher.errors import UsageError

matplotlib.use("Agg")


def test_loss_and_validation_are_drawn(run: transher.Run) -> None:
    axes = run.plot_history()
    history = run.history()
    validations = history[history["kind"] == "validation"]
    left, right = axes.figure.axes
    assert left is axes
    assert left.get_title() == "TranSHER on small"
    assert left.lines[0].get_xdata().tolist() == history[history["kind"] == "report"]["step"].tolist()  # type: ignore[union-attr]
    assert right.lines[0].get_ydata().tolist() == validations["mrr"].tolist()  # type: ignore[union-attr]
    pyplot.close("all")


def test_given_axes_are_drawn_on(run: transher.Run, tmp_path: Path) -> None:
    figure, axes = pyplot.subplots()
    assert run.plot_history(axes) is axes
    figure.savefig(tmp_path / "history.png")
    pyplot.close("all")


def test_without_matplotlib_the_error_says_what_to_install(run: transher.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="pip install matplotlib"):
        run.plot_history()
