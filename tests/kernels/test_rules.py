"""Rules in native code say what the plain reference says, on small graphs of every kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from transher.kernels import native
from transher.kernels.rules import CAUTION, KINDS, Rows, RuleIndex, Steps, Worth, kinds
from transher.kernels.rules_reference import ReferenceIndex, ReferenceSteps

pytestmark = pytest.mark.skipif(native.module is None, reason="needs the native module")

ENTITIES, RELATIONS = 7, 3
triple = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))
EVEN = Worth((1.0,) * KINDS, (1.0,) * KINDS, 1.0)
numbers = st.floats(0.25, 4.0, width=32)
worths = st.builds(Worth, st.tuples(*[numbers] * KINDS), st.tuples(*[numbers] * KINDS), st.floats(0.125, 1.0, width=32))
graphs = st.lists(triple, max_size=40).map(lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 3))


def found_in(triples: NDArray[np.int64], steps: Steps) -> tuple[Rows, Rows, Rows]:
    distinct = np.unique(triples, axis=0)
    bodies = steps.find_bodies(distinct, least_support=1, fan_out=1000, seed=3)
    counted = np.unique(bodies[:, :3], axis=0)
    closed = steps.count_bodies(counted, least_support=1, least_confidence=0, origins=1000, pairs=10**6, seed=3)
    constants = steps.find_constants(0, 2 * RELATIONS, least_support=1, least_confidence=0, most=10**6)
    return bodies, closed, constants


def reference(triples: NDArray[np.int64]) -> Steps:
    steps = Steps(np.empty((0, 3), np.int64), ENTITIES, RELATIONS)
    steps.own = ReferenceSteps(torch.from_numpy(triples), ENTITIES, RELATIONS)
    return steps


def as_sorted(rows: Rows) -> list[tuple[int, ...]]:
    return sorted(map(tuple, rows.tolist()))


@settings(max_examples=60, deadline=None)
@given(graphs)
def test_finds_and_counts_the_rules_that_the_reference_counts(triples: NDArray[np.int64]) -> None:
    ours = found_in(triples, Steps(triples, ENTITIES, RELATIONS))
    for mine, theirs in zip(ours, found_in(triples, reference(triples)), strict=True):
        assert as_sorted(mine) == as_sorted(theirs)


@settings(max_examples=30, deadline=None)
@given(graphs, worths)
def test_scores_queries_and_triples_as_the_reference_does(triples: NDArray[np.int64], worth: Worth) -> None:
    steps = Steps(triples, ENTITIES, RELATIONS)
    _, closed, constants = found_in(triples, steps)
    rules = np.concatenate([closed, constants])
    rules = rules[np.random.default_rng(0).permutation(len(rules))[:60]]
    index = RuleIndex(steps, rules, worth)
    own = ReferenceSteps(torch.from_numpy(triples), ENTITIES, RELATIONS)
    how = torch.tensor(worth.weights), torch.tensor(worth.powers), worth.decay
    truth = ReferenceIndex(own, torch.from_numpy(rules), CAUTION, *how)
    anchors = torch.arange(ENTITIES).repeat_interleave(RELATIONS)
    relations = torch.arange(RELATIONS).repeat(ENTITIES)
    every = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(RELATIONS), torch.arange(ENTITIES))
    scores, numbers, confidences = index.explain(every, 5)
    for tails in (True, False):
        theirs = torch.empty(len(anchors), ENTITIES)
        truth.score(1, anchors, relations, tails, theirs)
        ours = index.score(anchors, relations, tails)
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)
        by_triple = scores.reshape(ENTITIES, RELATIONS, ENTITIES)
        by_triple = by_triple if tails else by_triple.permute(2, 1, 0)
        assert torch.equal(ours.reshape(ENTITIES, RELATIONS, ENTITIES), by_triple)
    their_scores, their_numbers = torch.empty(len(every)), torch.empty(len(every), 5, dtype=torch.int64)
    their_confidences = torch.empty(len(every), 5)
    truth.explain(1, every, their_scores, their_numbers, their_confidences)
    assert torch.allclose(scores, their_scores, rtol=1e-5, atol=1e-5)
    assert torch.allclose(confidences, their_confidences, atol=1e-5)
    assert torch.equal(numbers >= 0, their_numbers >= 0)


def test_a_rule_is_worth_what_its_kind_and_its_place_say() -> None:
    # r(0, 1) follows from s(0, 1), from s(x, 1) ⇒ r(x, 1), and from having any u at all.
    triples = np.array([[0, 1, 1], [0, 2, 3]])
    closed = [0, -1, 1, -1, -1, -1, 15, 20, 0]
    with_value = [0, 1, 1, -1, -1, 1, 10, 20, 0]
    with_any_value = [0, 1, 2, -1, -1, -1, 5, 20, 0]
    rules = np.array([with_any_value, closed, with_value], dtype=np.int32)
    assert kinds(rules).tolist() == [4, 0, 3]
    worth = Worth((2.0, 1.0, 1.0, 3.0, 5.0), (1.0, 1.0, 1.0, 2.0, 0.5), 0.5)
    index = RuleIndex(Steps(triples, ENTITIES, RELATIONS), rules, worth)
    first, second, third = (-np.log1p(-support / 25) for support in (15, 10, 5))
    wanted = 2 * first + 0.5 * 3 * second**2 + 0.25 * 5 * third**0.5
    scores, numbers, _ = index.explain(torch.tensor([[0, 0, 1]]), 3)
    assert numbers.tolist() == [[1, 2, 0]]
    assert float(scores[0]) == pytest.approx(wanted, rel=1e-6)
    assert float(index.score(torch.tensor([0]), torch.tensor([0]), True)[0, 1]) == float(scores[0])


def test_only_the_strongest_rules_count() -> None:
    steps = Steps(np.array([[0, 1, value] for value in range(2, 22)]), 22, RELATIONS)
    rules = np.array([[0, 1, 1, -1, -1, value, 1, 20 + value, 0] for value in range(2, 22)], dtype=np.int32)
    scores, numbers, _ = RuleIndex(steps, rules, EVEN).explain(torch.tensor([[0, 0, 1]]), 20)
    assert numbers.tolist() == [list(range(20))]
    assert float(scores[0]) == pytest.approx(sum(-np.log1p(-1 / (25 + value)) for value in range(2, 18)), rel=1e-5)


def test_a_triple_does_not_support_itself() -> None:
    # r(0, 1) is the only triple that goes with s(x, 2) and ends in 1 … and the only way to walk from 0 to 1.
    triples = np.array([[0, 0, 1], [0, 1, 2], [1, 1, 3], [3, 2, 1]])
    steps = Steps(triples, ENTITIES, RELATIONS)
    path_over_itself = [0, -1, 0, 1, 2, -1, 3, 4, 0]  # 0 → 1 → 3 → 1
    constant = [0, 1, 1, -1, -1, 2, 1, 1, 0]  # r(x, 1) ⇐ s(x, 2), of which the triple is the only case
    index = RuleIndex(steps, np.array([path_over_itself, constant], dtype=np.int32), EVEN)
    scores, numbers, confidences = index.explain(torch.tensor([[0, 0, 1]]), 3)
    assert numbers.tolist() == [[1, -1, -1]]
    assert float(scores[0]) == float(confidences.sum()) == 0


def test_a_hub_with_many_neighbours_is_looked_at_within_bounds() -> None:
    spokes = 3_000
    hub = np.stack([np.arange(1, spokes + 1), np.zeros(spokes, int), np.zeros(spokes, int)], axis=1)
    chain = np.stack([np.arange(1, spokes), np.ones(spokes - 1, int), np.arange(2, spokes + 1)], axis=1)
    triples = np.concatenate([hub, chain])
    steps = Steps(triples, spokes + 1, 2)
    bodies = steps.find_bodies(triples[::10], least_support=2, fan_out=20, seed=0)
    rules = steps.count_bodies(
        np.unique(bodies[:, :3], axis=0), least_support=2, least_confidence=0.01, origins=50, pairs=500, seed=0
    )
    assert len(rules)
    assert (rules[:, 7] <= 500 + 2 * 5_000 + spokes).all()
    assert len(steps.find_constants(0, 4, least_support=2, least_confidence=0.1, most=10)) <= 10


@pytest.mark.parametrize(
    "rule",
    [
        [3, -1, 0, -1, -1, -1, 1, 1, 0],  # a closed rule of an end that is no relation
        [0, -1, 9, -1, -1, -1, 1, 1, 0],
        [0, -1, -1, -1, -1, -1, 1, 1, 0],  # no body
        [0, -1, 0, -1, 1, -1, 1, 1, 0],  # a gap
        [0, 7, 0, -1, -1, 2, 1, 1, 0],
        [0, 1, 0, -1, -1, 7, 1, 1, 0],
        [0, 1, 0, 1, -1, 2, 1, 1, 0],
        [0, -1, 1, -1, -1, -1, 2, 1, 0],  # more support than pairs
    ],
)
def test_rules_that_cannot_be_are_refused(rule: list[int]) -> None:
    steps = Steps(np.array([[0, 0, 1]]), ENTITIES, RELATIONS)
    with pytest.raises(ValueError, match=r"rule|body"):
        RuleIndex(steps, np.array([rule], dtype=np.int32), EVEN)


@pytest.mark.parametrize(
    "worth",
    [
        EVEN._replace(weights=(1.0,) * (KINDS - 1)),
        EVEN._replace(weights=(float("nan"),) * KINDS),
        EVEN._replace(powers=(0.0,) * KINDS),
        EVEN._replace(decay=1.5),
        EVEN._replace(decay=float("nan")),
    ],
)
def test_worths_that_cannot_be_are_refused(worth: Worth) -> None:
    steps = Steps(np.array([[0, 0, 1]]), ENTITIES, RELATIONS)
    with pytest.raises(ValueError, match=r"weights|powers|decay"):
        RuleIndex(steps, np.empty((0, 9), np.int32), worth)


def test_ids_out_of_bounds_are_refused() -> None:
    with pytest.raises(IndexError):
        Steps(np.array([[0, 0, ENTITIES]]), ENTITIES, RELATIONS)
    steps = Steps(np.array([[0, 0, 1]]), ENTITIES, RELATIONS)
    index = RuleIndex(steps, np.empty((0, 9), np.int32), EVEN)
    with pytest.raises(IndexError):
        index.score(torch.tensor([ENTITIES]), torch.tensor([0]), True)
    with pytest.raises(IndexError):
        index.explain(torch.tensor([[0, RELATIONS, 1]]), 1)
