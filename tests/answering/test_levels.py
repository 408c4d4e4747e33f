from __future__ import annotations

import numpy as np
import pytest
from tests.answering.towns import LIVES_IN, towns

from transher.answering import levels as levels_module
from transher.answering.features import Describer
from transher.answering.fitting import _survey, describe
from transher.answering.levels import PLACES, WIDTH, Levels
from transher.graph.ends import Ends


def _expected(head: int) -> list[float]:
    graph, scorer, _ = towns()
    tails = Ends(graph.trained).fitting(LIVES_IN + 3)
    known = graph.train[(graph.train[:, 0] == head) & (graph.train[:, 1] == LIVES_IN), 2]
    scores = scorer.table[LIVES_IN, head].numpy()
    best = np.sort(scores[np.setdiff1d(tails, [*known, head])])[::-1]
    levels = [best[place - 1] if place <= len(best) else -np.inf for place in PLACES.tolist()]
    return [*levels, float(scores[known].mean()) if len(known) else np.nan]


def levels_of(describer: Describer) -> Levels:
    assert describer.levels is not None
    return describer.levels


def test_kept_and_computed_levels_are_those_of_the_candidates_that_fit_and_were_not_trained_on() -> None:
    graph, scorer, _ = towns()
    heads = np.array([0, 17, 599])
    describer = describe(scorer, graph, None)
    kept = levels_of(describer)
    _survey(kept, describer, None)
    computed = Levels(scorer, graph.trained, Ends(graph.trained))
    for place, head in enumerate(heads.tolist()):
        expected = pytest.approx(_expected(head), nan_ok=True, rel=1e-5)
        assert kept.of(np.full(3, LIVES_IN), heads)[place].tolist() == expected
        assert computed.of(np.full(3, LIVES_IN), heads)[place].tolist() == expected


def test_the_levels_of_tails_are_among_heads() -> None:
    graph, scorer, _ = towns()
    describer = describe(scorer, graph, None)
    _survey(levels_of(describer), describer, None)
    town = 605
    heads = Ends(graph.trained).fitting(LIVES_IN)
    known = graph.train[(graph.train[:, 2] == town) & (graph.train[:, 1] == LIVES_IN), 0]
    best = np.sort(scorer.table[LIVES_IN, np.setdiff1d(heads, known), town].numpy())[::-1]
    found = levels_of(describer).of(np.array([LIVES_IN + 3]), np.array([town]))[0]
    assert found[: len(PLACES)].tolist() == pytest.approx(best[PLACES - 1].tolist(), rel=1e-5)


def test_blocks_of_heads_give_the_same_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, scorer, _ = towns()
    whole = describe(scorer, graph, None)
    pairs, _ = _survey(levels_of(whole), whole, None)
    monkeypatch.setattr(levels_module, "_SCORES", 100)
    parts = describe(scorer, graph, None)
    again, _ = _survey(levels_of(parts), parts, None)
    assert np.array_equal(levels_of(whole).values, levels_of(parts).values, equal_nan=True)
    assert {tuple(pair) for pair in pairs.tolist()} == {tuple(pair) for pair in again.tolist()}


def test_a_large_graph_keeps_nothing_and_compares_with_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, scorer, _ = towns()
    monkeypatch.setattr(levels_module, "LARGEST", 10)
    monkeypatch.setattr(levels_module, "_REFERENCE", 5)
    levels = Levels(scorer, graph.trained, Ends(graph.trained))
    assert not levels.all_fit
    found = levels.of(np.array([LIVES_IN]), np.array([3]))
    assert found.shape == (1, WIDTH)
    assert np.isneginf(found[0, len(PLACES) - 1])  # a sample of five has no 30th


def test_levels_that_are_not_kept_are_computed_once_and_forgotten_beyond_a_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, scorer, _ = towns()
    levels = Levels(scorer, graph.trained, Ends(graph.trained))
    computed: list[list[int]] = []
    own = Levels._computed

    def counted(self: Levels, end: int, anchors: np.ndarray) -> np.ndarray:
        computed.append(anchors.tolist())
        return own(self, end, anchors)

    monkeypatch.setattr(Levels, "_computed", counted)
    ends, heads = np.full(4, LIVES_IN), np.array([17, 3, 17, 599])
    first = levels.of(ends, heads)
    assert computed == [[3, 17, 599]]
    again = levels.of(np.full(5, LIVES_IN), np.array([599, 17, 4, 3, 3]))
    assert computed[1:] == [[4]]
    assert np.array_equal(again[[0, 1, 3, 4]], first[[3, 0, 1, 1]], equal_nan=True)
    monkeypatch.setattr(levels_module, "_REMEMBERED", 2)
    assert np.array_equal(
        levels.of(ends[:1], np.array([5])),
        Levels(scorer, graph.trained, Ends(graph.trained)).of(ends[:1], np.array([5])),
        equal_nan=True,
    )
    assert not levels._remembered
