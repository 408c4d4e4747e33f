"""Weights of a blend, fitted on what members say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.conftest import make_graph
from torch import Tensor

from transher.blending import Blend, Weights, fit_blend
from transher.blending.fitting import fit_weights
from transher.blending.trials import Trials, ask
from transher.errors import UsageError
from transher.evaluation import evaluate
from transher.graph.graph import Graph, Side
from transher.rules import Rules, mine
from transher.scorer import Scorer


def planted(weights: Tensor, queries: int = 3_000, candidates: int = 20, seed: int = 0) -> Trials:
    """Queries whose answers are drawn from the softmax of a weighted sum; weights: (2 · relations, members)."""
    generator = torch.Generator().manual_seed(seed)
    groups = torch.arange(queries) % len(weights)
    scores = torch.randn(queries, weights.shape[1], candidates, generator=generator)
    chances = torch.bmm(weights[groups][:, None], scores)[:, 0].softmax(1)
    answers = torch.multinomial(chances, 1, generator=generator)[:, 0]
    rows = torch.arange(queries)
    first, own = scores[rows, :, 0].clone(), scores[rows, :, answers].clone()
    scores[rows, :, 0], scores[rows, :, answers] = own, first
    same = answers == 0
    scores[rows[same], :, 0] = own[same]
    return Trials(scores, torch.zeros(queries, candidates, dtype=torch.bool), groups, rows, len(weights) // 2)


def test_planted_weights_are_found() -> None:
    truth = torch.tensor([[2.0, 0.5], [2.0, 0.5], [2.0, 0.5], [2.0, 0.5]])
    found = fit_weights(planted(truth), [True, True]).values
    assert torch.allclose(found.permute(1, 2, 0).reshape(4, 2), truth, rtol=0.25)


def test_a_relation_has_weights_of_its_own_where_members_differ() -> None:
    truth = torch.tensor([[3.0, 0.1], [0.1, 3.0], [3.0, 0.1], [0.1, 3.0]])
    found = fit_weights(planted(truth), [True, True]).values  # (members, sides, relations)
    assert bool((found[0, :, 0] > 5 * found[1, :, 0]).all())
    assert bool((found[1, :, 1] > 5 * found[0, :, 1]).all())


def test_a_relation_with_few_facts_keeps_to_the_common_weights() -> None:
    truth = torch.tensor([[2.0, 0.5], [2.0, 0.5]]).repeat(40, 1)
    trials = planted(truth, queries=90)  # about one query for each relation and side
    found = fit_weights(trials, [True, True]).values
    share = found[0] / found.sum(0)
    assert float(share.std()) < 0.1


def test_a_member_that_says_nothing_gets_no_weight() -> None:
    truth = torch.tensor([[2.0, 0.0], [2.0, 0.0]])
    found = fit_weights(planted(truth), [True, True]).values
    assert float((found[1] / found[0]).max()) < 0.15


class Knows(Scorer):
    """Knows the answers to some relations, and guesses those to others."""

    def __init__(self, graph: Graph, relations: set[int], seed: int) -> None:
        self._graph, self._relations = graph, relations
        self._noise = torch.from_numpy(np.random.default_rng(seed).normal(size=(2, len(graph.entities))))

    entity_count = property(lambda self: len(self._graph.entities))
    relation_count = property(lambda self: len(self._graph.relations))

    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        found = self._noise[0][None].repeat(len(anchors), 1).float()
        for row, (anchor, relation) in enumerate(zip(anchors.tolist(), relations.tolist(), strict=True)):
            if relation in self._relations:
                _, ids = self._graph.known.answers(side).of(np.array([anchor]), np.array([relation]))
                found[row, torch.from_numpy(ids.astype(np.int64))] += 2.5
        return found if candidates is None else found[:, candidates]


def test_members_that_know_different_relations_are_better_together(ring: Graph) -> None:
    triples = [(i, relation, (i + 1 + relation) % 60) for i in range(60) for relation in range(2)]
    graph = make_graph(triples[:60], triples[60:90], triples[90:])
    members = [Knows(graph, {0}, 1), Knows(graph, {1}, 2)]
    alone = [evaluate(member, graph).overall.mrr for member in members]
    assert evaluate(fit_blend(members, graph), graph).overall.mrr > max(alone) + 0.1


def test_a_blend_with_rules_can_be_blended_again(ring: Graph) -> None:
    """Its scores may be negative, which those of rules are not: they must not be bent."""
    model = Knows(ring, {0, 2}, 1)
    rules = Rules(mine(ring.trained, seconds=0.2).rules, ring.trained)
    once = fit_blend([model, rules], ring)
    again = fit_blend([once, Knows(ring, {1}, 2)], ring)
    assert again.weights.bends == (0.0, 0.0)
    assert bool(again.score(torch.from_numpy(ring.test.astype(np.int64))).isfinite().all())


def test_who_has_the_only_answer_is_left_to_others() -> None:
    """Scorers that cannot tell people apart find who has no birthplace yet."""
    born = [(person, 0, 200 + person % 10) for person in range(200)]
    graph = make_graph(born[:120], born[120:160], born[160:])
    members = [Knows(graph, set(), 1), Knows(graph, set(), 2)]
    blend = fit_blend(members, graph)
    plain = Blend(members, Weights(blend.weights.values, blend.weights.bends))
    heads = [evaluate(one, graph).by_side["head"].mrr for one in (plain, blend)]
    assert heads[1] > 1.5 * heads[0]


def test_trials_hold_each_candidate_once_and_no_other_known_answer(ring: Graph) -> None:
    members = [Knows(ring, {0, 2}, 1), Knows(ring, {1}, 2)]
    trials = ask(members, ring)
    assert len(trials.groups) == 2 * len(ring.valid)
    assert not bool(trials.absent[:, 0].any())
    # Of 60 entities all but the answer and the other known answers are rivals, once.
    for query, (fact, group) in enumerate(zip(trials.facts.tolist(), trials.groups.tolist(), strict=True)):
        side: Side = "head" if group < 3 else "tail"
        anchor = ring.valid[fact, 2 if side == "head" else 0]
        known = int(ring.known.answers(side).counts(np.array([anchor]), np.array([group % 3]))[0])
        assert int((~trials.absent[query]).sum()) == 60 - known + 1


def test_fewer_facts_are_asked_where_memory_is_short(ring: Graph) -> None:
    members = [Knows(ring, {0}, 1), Knows(ring, {1}, 2)]
    assert len(ask(members, ring, most=1_000).groups) < 2 * len(ring.valid)


def test_without_validation_facts_there_is_nothing_to_fit(ring: Graph) -> None:
    graph = make_graph(ring.train)
    with pytest.raises(UsageError, match="no validation triples"):
        fit_blend([Knows(graph, {0}, 1), Knows(graph, {1}, 2)], graph)
