"""Paired comparison: what it finds, what it does not find, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.evaluation.small_graphs import random_graph

from transher.errors import UsageError
from transher.evaluation.ranks import Ranks, both_sides
from transher.evaluation.significance import compare
from transher.graph import SIDES

GRAPH = random_graph(entities=200, relations=5, count=2000)


def random_ranks(seed: int, scale: float = 10.0) -> Ranks:
    rng = np.random.default_rng(seed)
    count = len(GRAPH.test)
    nothing = np.zeros(count, dtype=np.int64)
    better = {side: (rng.exponential(scale, count).astype(np.int64), nothing) for side in SIDES}
    return both_sides(GRAPH.test, better)


def test_a_run_equals_itself() -> None:
    ranks = random_ranks(0)
    same = compare(ranks, ranks)
    assert (same.difference, same.interval, same.effect_size) == (0.0, (0.0, 0.0), 0.0)
    assert (same.bootstrap_p, same.wilcoxon_p) == (1.0, 1.0)
    assert (same.better, same.worse, same.equal) == (0.0, 0.0, 1.0)


def test_a_clear_difference_is_found_and_changes_sign_with_the_order() -> None:
    good, bad = random_ranks(0, scale=3.0), random_ranks(1, scale=12.0)
    found = compare(good, bad)
    assert found.first_mrr - found.second_mrr == pytest.approx(found.difference)
    assert 0 < found.interval[0] < found.difference < found.interval[1]
    assert found.bootstrap_p < 0.001
    assert found.wilcoxon_p < 0.001
    assert found.better > found.worse
    assert found.better + found.worse + found.equal == pytest.approx(1)
    assert found.effect_size is not None
    assert found.effect_size > 0.2
    mirrored = compare(bad, good)
    assert mirrored.difference == -found.difference
    assert mirrored.effect_size == pytest.approx(-found.effect_size)
    assert mirrored.bootstrap_p == found.bootstrap_p


def test_chance_alone_is_rarely_called_significant() -> None:
    results = [compare(random_ranks(2 * i), random_ranks(2 * i + 1), resamples=300) for i in range(60)]
    assert sum(result.bootstrap_p < 0.05 for result in results) <= 9
    assert sum(result.wilcoxon_p < 0.05 for result in results) <= 9


def test_figures_are_those_of_the_textbook() -> None:
    first, second = random_ranks(0), random_ranks(1)
    result = compare(first, second)
    a, b = 1 / first.realistic, 1 / second.realistic
    assert result.wilcoxon_p == pytest.approx(stats.wilcoxon(a, b).pvalue)
    t = stats.ttest_rel(a, b).statistic
    assert result.effect_size == pytest.approx(t / np.sqrt(len(a)))


def test_the_same_difference_everywhere_has_no_effect_size() -> None:
    ranks = random_ranks(0)
    first = replace(ranks, optimistic=np.ones_like(ranks.triple), pessimistic=np.ones_like(ranks.triple))
    second = replace(ranks, optimistic=1 + first.optimistic, pessimistic=1 + first.optimistic)
    result = compare(first, second)
    assert result.effect_size is None
    assert result.better == 1
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False)) == result.to_dict()


def test_the_order_of_the_queries_does_not_matter() -> None:
    first, second = random_ranks(0), random_ranks(1)
    shuffled = second.take(np.random.default_rng(0).permutation(len(second)))
    assert compare(first, shuffled) == compare(first, second)


def test_different_queries_are_refused() -> None:
    ranks = random_ranks(0)
    with pytest.raises(UsageError, match=rf"different queries: {len(ranks)} and {len(ranks) - 1} of them"):
        compare(ranks, ranks.take(np.arange(len(ranks) - 1)))
    other = ranks.triples.copy()
    other[3, 2] += 1
    with pytest.raises(UsageError, match=rf"different queries: 1 of {len(ranks)}, first the head of \("):
        compare(ranks, replace(ranks, triples=other))
    with pytest.raises(UsageError, match="without ranked queries"):
        compare(ranks.take(np.arange(0)), ranks)
