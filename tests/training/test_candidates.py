"""What is tried on a graph, and how long it may take."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.conftest import make_graph

from transher.graph.graph import Graph
from transher.training.candidates import Candidate, closer, plan, wider
from transher.training.recipe import Recipe


def random_graph(triples: int, entities: int, seed: int = 0) -> Graph:
    draws = np.random.default_rng(seed).integers(0, (entities, 4, entities), (triples + 100, 3))
    return make_graph(draws[100:], draws[:100], entities=entities, relations=4)


SMALL, LARGE = random_graph(2_000, 200), random_graph(60_000, 3_000)


def by_width(recipe: Recipe) -> float:
    """A machine on which a step takes a millisecond per hundred coordinates."""
    return recipe.model.k * 1e-5


def _slower(factor: float, recipe: Recipe) -> float:
    return factor * by_width(recipe)


def names(candidates: list[Candidate]) -> set[str]:
    return {candidate.recipe.model.name for candidate in candidates}


def test_both_families_are_tried_on_every_graph() -> None:
    for graph in (SMALL, LARGE):
        found = plan(graph, 60, 0, by_width)
        assert {candidate.family for candidate in found} == {"distance", "dot"}
        assert {"transher", "complex"} <= names(found)
        labels = [candidate.label for candidate in found]
        assert len(set(labels)) == len(labels)
        weights = {candidate.recipe.training.n3 for candidate in found if candidate.family == "dot"}
        assert len(weights) >= 2


def test_small_graphs_have_more_models_and_large_ones_relation_prediction() -> None:
    small, large = plan(SMALL, 60, 0, by_width), plan(LARGE, 60, 0, by_width)
    assert names(large) < names(small)
    assert not any(candidate.recipe.training.relation_prediction for candidate in small)
    assert any(candidate.recipe.training.relation_prediction for candidate in large)


@pytest.mark.parametrize("graph", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("seconds", [5.0, 60.0, 2_000.0])
def test_what_is_planned_takes_no_longer_than_it_may(graph: Graph, seconds: float) -> None:
    found = plan(graph, seconds, 0, by_width)
    comparing = sum(candidate.first * by_width(candidate.recipe) for candidate in found)
    assert comparing < 0.6 * seconds
    for candidate in found:
        whole = candidate.recipe.training.steps * by_width(candidate.recipe)
        assert whole <= seconds
        assert candidate.first % candidate.recipe.validation.every == 0  # it is compared by a validation
        assert candidate.first <= candidate.recipe.training.steps


def test_a_slower_machine_has_narrower_models_and_fewer_steps() -> None:
    fast, slow = (plan(LARGE, 300, 0, partial(_slower, factor)) for factor in (1, 30))
    for quick, late in zip(fast, slow, strict=True):
        assert late.recipe.model.k <= quick.recipe.model.k
        assert late.recipe.training.steps <= quick.recipe.training.steps
    assert slow[0].recipe.model.k < fast[0].recipe.model.k


def test_the_seed_reaches_every_training() -> None:
    assert {candidate.recipe.training.seed for candidate in plan(SMALL, 60, 7, by_width)} == {7}


def test_the_search_for_n3_comes_closer_on_both_sides() -> None:
    best = next(one for one in plan(SMALL, 60, 0, by_width) if one.family == "dot")
    below, above = closer(best)
    assert below.recipe.training.n3 < best.recipe.training.n3 < above.recipe.training.n3
    assert len({below.label, best.label, above.label}) == 3
    assert below.first == best.first


def test_the_widest_vectors_that_there_is_time_for_are_tried() -> None:
    best = next(one for one in plan(SMALL, 60, 0, by_width) if one.family == "dot")
    steps = best.recipe.training.steps
    for seconds, expected in ((steps * 0.011, [1024]), (steps * 0.006, [512]), (steps * 0.004, [])):
        found = wider(best, seconds, by_width)
        assert [one.recipe.model.k for one in found] == expected
        for one in found:
            assert one.recipe.training.n3 == best.recipe.training.n3
            assert one.label != best.label
            assert one.first == best.first
