"""A blend as a scorer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.small_graphs import random_graph, whole_number_scorer

from transher.blending import Blend, Tallies, Weights
from transher.blending.tallies import LEVELS
from transher.evaluation.ranking import rank
from transher.graph.graph import SIDES
from transher.rules import Rules, mine


def a_blend(seed: int, bend: float = 4.0, *, counting: bool = False) -> Blend:
    """Of two models and rules, with tallies or without."""
    graph = random_graph(seed, entities=14, relations=3, count=200)
    rules = Rules(mine(graph.trained, seconds=0.2).rules, graph.trained)
    members = [whole_number_scorer(graph, seed), whole_number_scorer(graph, seed + 1), rules]
    generator = torch.Generator().manual_seed(seed)
    worth = torch.randn(6, LEVELS, generator=generator) if counting else None
    weights = Weights(torch.rand(3, 2, 3, generator=generator), (0.0, 0.0, bend), worth)
    return Blend(members, weights, Tallies.of(graph) if counting else None)


@given(st.integers(0, 1_000), st.sampled_from(SIDES), st.booleans())
@settings(max_examples=20)
def test_every_way_to_ask_gives_the_same_score(seed: int, side: str, counting: bool) -> None:
    blend = a_blend(seed, counting=counting)
    anchors, relations = torch.tensor([3, 0, 13, 3]), torch.tensor([1, 2, 0, 1])
    everything = blend.scores(anchors, relations, side)  # type: ignore[arg-type]
    own = torch.arange(14).expand(4, 14)
    assert torch.allclose(blend.score_own(anchors, relations, side, own), everything, atol=1e-5)  # type: ignore[arg-type]
    given = anchors.repeat_interleave(14), relations.repeat_interleave(14), own.reshape(-1)
    columns = given if side == "tail" else given[::-1]
    triples = torch.stack(list(columns), 1)
    single = blend.score_triples(triples, side)  # type: ignore[arg-type]
    assert torch.allclose(single.view(4, 14), everything, atol=1e-5)
    assert torch.equal(single[5:6], blend.score_triples(triples[5:6], side))  # type: ignore[arg-type]
    scores, ids = blend.best(anchors, relations, side, 3)  # type: ignore[arg-type]
    assert torch.allclose(scores, everything.gather(1, ids))
    assert torch.allclose(scores[:, 0], everything.amax(1))


def test_its_score_is_the_weighted_sum() -> None:
    blend = a_blend(1, bend=0.0)
    anchors, relations = torch.tensor([2]), torch.tensor([1])
    for number, side in enumerate(SIDES):
        parts = torch.stack([member.scores(anchors, relations, side) for member in blend.members])
        weights = blend.weights.values[:, number, 1]
        assert torch.allclose(blend.scores(anchors, relations, side), (weights[:, None, None] * parts).sum(0))


def test_tallies_are_added_to_it() -> None:
    blend = a_blend(4, counting=True)
    plain = Blend(blend.members, Weights(blend.weights.values, blend.weights.bends))
    assert blend.tallies is not None
    assert blend.weights.worth is not None
    query = torch.tensor([2]), torch.tensor([1])
    for side in SIDES:
        added = torch.zeros(1, 14)
        blend.tallies.add(added, blend.weights.worth, *query, side, None)
        assert torch.allclose(blend.scores(*query, side), plain.scores(*query, side) + added)


def test_rules_and_tallies_alone_have_no_dense_part() -> None:
    blend = a_blend(6, counting=True)
    weights = Weights(blend.weights.values[2:], blend.weights.bends[2:], blend.weights.worth)
    assert Blend(blend.members[2:], weights, blend.tallies).dense_part is None


def test_blended_with_itself_a_scorer_ranks_as_alone() -> None:
    graph = random_graph(3, entities=30, relations=3, count=300)
    scorer = whole_number_scorer(graph)
    blend = Blend([scorer, scorer], Weights(torch.full((2, 2, 3), 0.5), (0.0, 0.0)))
    alone, together = (rank(one, graph.test, graph.known).realistic for one in (scorer, blend))
    assert np.array_equal(alone, together)


def test_a_blend_of_blends_has_all_their_parts() -> None:
    inner = a_blend(2)
    outer = Blend([inner, inner.members[0]], Weights(torch.ones(2, 2, 3), (0.0, 0.0)))
    assert outer.parts == (*inner.members, inner.members[0])
    assert not outer.dense
    assert outer.scores(torch.tensor([1]), torch.tensor([0]), "tail").shape == (1, 14)


@pytest.mark.parametrize("bend", [1.0, 300.0])
def test_a_bend_keeps_the_order(bend: float) -> None:
    blend = a_blend(5, bend)
    rules = blend.members[2]
    alone = Blend([rules], Weights(torch.ones(1, 2, 3), (bend,)))
    query = torch.tensor([4]), torch.tensor([1]), "head"
    raw, bent = rules.scores(*query)[0], alone.scores(*query)[0]  # type: ignore[arg-type]
    order = raw.argsort()
    assert bool((bent[order].diff() >= 0).all())


@given(st.integers(0, 1_000), st.booleans())
@settings(max_examples=15)
def test_scores_that_are_computed_together_have_the_bits_of_those_computed_apart(seed: int, counting: bool) -> None:
    blend = a_blend(seed, counting=counting)
    one_vector, rules = blend.members[0], blend.members[2]
    blends = [
        blend,
        Blend(
            [rules, one_vector],
            Weights(blend.weights.values[1:], blend.weights.bends[1:][::-1], blend.weights.worth),
            blend.tallies,
        ),
        Blend([rules, one_vector], Weights(blend.weights.values[1:], blend.weights.bends[1:][::-1])),
        Blend([blend, one_vector], Weights(blend.weights.values[:2], (0.0, 0.0))),
        Blend([one_vector, blend.members[1]], Weights(blend.weights.values[:2], (0.0, 0.0))),
    ]
    triples = torch.cartesian_prod(torch.arange(14), torch.arange(3), torch.arange(14))[::7]
    for scorer in blends:
        found = scorer.scored(triples)
        assert torch.equal(found.whole, scorer.score(triples))
        part = scorer.dense_part
        assert part is not None
        assert found.dense is not None
        assert torch.equal(found.dense, part.score(triples))
        if found.rules is not None:
            assert isinstance(rules, Rules)
            for own, expected in zip(found.rules, rules.strengths(triples.numpy()), strict=True):
                assert np.array_equal(own, expected)
