from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import transher
from transher.runs import layout
from transher.runs.layout import LAYOUT_FILE, Layout


def test_neighbours_of_the_embeddings_are_neighbours_on_the_map_and_the_map_is_kept(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openTSNE")
    run = transher.load(copy)
    drawn = Layout(run)
    assert drawn.method == "neighbours"
    assert drawn.explained is None
    assert drawn.points.shape == (len(run.graph.entities), 2)
    monkeypatch.setattr(layout, "_neighbours", None)  # it is not computed again
    kept = Layout(transher.load(copy))
    np.testing.assert_allclose(kept.points, drawn.points, rtol=1e-5)
    np.testing.assert_allclose(kept.place(np.array([3, 7])), kept.points[[3, 7]])


def test_without_the_extra_it_is_two_principal_components(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "find_spec", lambda _: None)
    drawn = Layout(transher.load(copy))
    assert drawn.method == "components"
    assert drawn.explained is not None
    assert 0 < drawn.explained <= 1
    assert not (copy / LAYOUT_FILE).exists()


def test_a_damaged_map_is_made_anew(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_neighbours", lambda _, ids: np.zeros((len(ids), 2)))
    monkeypatch.setattr(layout, "find_spec", lambda _: True)
    (copy / LAYOUT_FILE).write_bytes(b"nothing")
    assert Layout(transher.load(copy)).method == "neighbours"
    assert (copy / LAYOUT_FILE).stat().st_size > 100


def test_an_entity_that_is_not_drawn_lies_amidst_its_nearest(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "POINTS", 40)
    monkeypatch.setattr(layout, "_neighbours", lambda _, ids: np.stack([ids, -ids], axis=1).astype(np.float64))
    monkeypatch.setattr(layout, "find_spec", lambda _: True)
    drawn = Layout(transher.load(copy))
    assert len(drawn.ids) == 40
    hidden = np.setdiff1d(np.arange(60), drawn.ids)[:1]
    x, y = drawn.place(hidden)[0]
    assert x == pytest.approx(-y)
    assert 0 < x < 60
