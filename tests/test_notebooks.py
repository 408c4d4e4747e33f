"""The notebooks of the documentation run from the first cell to the last."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parents[1] / "docs" / "notebooks"
make_notebooks = pytest.importorskip("scripts.make_notebooks", reason="pip install nbclient nbconvert ipykernel")


@pytest.mark.parametrize("name", sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")))
def test_a_notebook_runs_without_a_warning(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    if not make_notebooks.can_run(name):
        pytest.skip("TRANSHER_DATA names no folder with its data")
    outputs = [cell.outputs for cell in make_notebooks.executed(NOTEBOOKS / f"{name}.ipynb").cells if "outputs" in cell]
    assert any(outputs)
    assert "WARNING" not in capfd.readouterr().err


def test_notebooks_are_kept_without_outputs() -> None:
    assert not [path for path in NOTEBOOKS.glob("*.ipynb") if '"output_type"' in path.read_text("utf-8")]
