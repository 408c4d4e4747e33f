"""Metrics by hand, breakdowns that add up, and intervals that hold the truth as often as they say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.evaluation.small_graphs import random_graph, whole_number_scorer

from transher.errors import UsageError
from transher.evaluation import bootstrap, metrics
from transher.evaluation.bootstrap import percentile_interval, resampled_means
from transher.evaluation.metrics import Metrics
from transher.evaluation.ranking import rank
from transher.evaluation.ranks import Ranks

TYPES = ("1-1", "1-N", "N-1", "N-N")


def ranks_of(better: list[int], tied: list[int] | None = None, relations: list[int] | None = None) -> Ranks:
    """Ranks of len(better)/2 triples, heads first."""
    count = len(better) // 2
    triples = np.zeros((count, 3), dtype=np.int32)
    triples[:, 0] = np.arange(count)
    triples[:, 1] = relations or 0
    optimistic = 1 + np.array(better)
    side = np.repeat(np.arange(2, dtype=np.int8), count)
    triple = np.tile(np.arange(count), 2)
    return Ranks(triple, np.tile(triples, (2, 1)), side, optimistic, optimistic + np.array(tied or 0))


def test_figures_by_hand() -> None:
    figures = Metrics.of(ranks_of(better=[0, 0, 2, 19], tied=[0, 1, 0, 0]))
    assert figures.count == 4
    assert figures.mrr == pytest.approx((1 + 1 / 1.5 + 1 / 3 + 1 / 20) / 4)
    assert figures.mr == pytest.approx((1 + 1.5 + 3 + 20) / 4)
    assert (figures.hits_at_1, figures.hits_at_3, figures.hits_at_10) == (0.25, 0.75, 0.75)
    assert figures.mrr_optimistic == pytest.approx((1 + 1 + 1 / 3 + 1 / 20) / 4)
    assert figures.mrr_pessimistic == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 20) / 4)
    assert figures.tied == 0.25


def test_no_ranks_are_refused() -> None:
    with pytest.raises(UsageError, match="no triple was evaluated"):
        Metrics.of(ranks_of([]))


def test_breakdowns_add_up_to_the_whole() -> None:
    graph = random_graph(entities=20, relations=6, count=300)
    ranks = rank(whole_number_scorer(graph), graph.test, graph.known)
    whole = Metrics.of(ranks)
    types = np.array([0, 1, 2, 3, 3, 1])
    by_type = metrics.by_relation_type(ranks, types, TYPES)
    cells = [cell for row in by_type.values() for cell in row.values()]
    for parts in (metrics.by_side(ranks).values(), metrics.by_relation(ranks).values(), cells):
        assert sum(part.count for part in parts) == whole.count
        assert sum(part.count * part.mrr for part in parts) == pytest.approx(whole.count * whole.mrr)


def test_a_cell_of_the_type_table_holds_its_queries_alone() -> None:
    ranks = ranks_of(better=[0, 1, 2, 3, 4, 5], relations=[0, 1, 1])
    table = metrics.by_relation_type(ranks, np.array([0, 3]), TYPES)
    assert {side: {name: cell.mr for name, cell in row.items()} for side, row in table.items()} == {
        "head": {"1-1": 1.0, "N-N": 2.5},
        "tail": {"1-1": 4.0, "N-N": 5.5},
    }
    assert metrics.by_relation(ranks)[0].mr == 2.5


def test_metrics_are_json() -> None:
    figures = Metrics.of(ranks_of([0, 3, 1, 7])).to_dict()
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures
    assert figures["intervals"].keys() == {"mrr", "mr", "hits@1", "hits@3", "hits@10"}


def brute_force_means(values: NDArray[np.float64], triple: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    distinct = np.unique(triple)
    draws = np.random.default_rng(seed).integers(len(distinct), size=(50, len(distinct)))
    return np.array([np.concatenate([values[triple == distinct[i]] for i in draw]).mean(0) for draw in draws])


def test_a_triples_queries_are_drawn_together() -> None:
    rng = np.random.default_rng(3)
    triple = np.array([4, 7, 9, 9, 4, 7, 9, 1])
    values = rng.random((len(triple), 2))
    np.testing.assert_allclose(resampled_means(values, triple, 50, seed=5), brute_force_means(values, triple, 5))


def test_the_interval_does_not_depend_on_how_many_draws_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    values, triple = np.random.default_rng(0).random((60, 1)), np.arange(60) % 30
    whole = resampled_means(values, triple, 200)
    monkeypatch.setattr(bootstrap, "_DRAWS", 100)
    np.testing.assert_allclose(resampled_means(values, triple, 200), whole)


def test_the_interval_holds_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for trial in range(200):
        # Two queries a triple that say the same: drawn apart, the interval would be too narrow by √2.
        values = np.tile(rng.exponential(size=80), 2)[:, None]
        low, high = percentile_interval(resampled_means(values, np.tile(np.arange(80), 2), 300, seed=trial))[0]
        held += low <= 1 <= high
    assert 0.89 <= held / 200 <= 0.99


def test_intervals_hold_the_figure_and_repeat_by_seed() -> None:
    ranks = ranks_of(np.random.default_rng(0).integers(30, size=200).tolist())
    first, again, other = Metrics.of(ranks), Metrics.of(ranks), Metrics.of(ranks, seed=1)
    assert first == again
    assert first.intervals != other.intervals
    assert first.intervals["mrr"][0] < first.mrr < first.intervals["mrr"][1]
    assert Metrics.of(ranks, resamples=0).intervals == {}
