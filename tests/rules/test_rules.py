"""Rules as a scorer, and in words."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transher.evaluation import evaluate
from transher.graph.graph import SIDES, Graph
from transher.graph.known import KnownTriples
from transher.rules import Rules, mine, rules_of
from transher.rules.words import grounding_in_words, groundings, rule_in_words


@pytest.fixture(scope="module")
def rules(ring: Graph) -> Rules:
    return Rules(mine(ring.trained, seconds=1e9).rules, ring.trained).fitted(ring.valid, ring.known)


def test_rules_answer_what_they_were_mined_for(rules: Rules, ring: Graph) -> None:
    assert evaluate(rules, ring, "test").to_dict()["overall"]["mrr"] > 0.9
    assert rules_of(rules) is rules


@pytest.mark.parametrize("side", SIDES)
def test_a_triple_has_one_score_however_it_is_asked_for(rules: Rules, ring: Graph, side: str) -> None:
    triples = torch.from_numpy(ring.all_triples.astype(np.int64))
    anchor, answer = (0, 2) if side == "tail" else (2, 0)
    matrix = rules.scores(triples[:, anchor], triples[:, 1], side)  # type: ignore[arg-type]
    of_triples = rules.score_triples(triples, side)  # type: ignore[arg-type]
    assert torch.equal(matrix[torch.arange(len(triples)), triples[:, answer]], of_triples)
    candidates = torch.arange(0, 60, 7)
    few = rules.scores(triples[:, anchor], triples[:, 1], side, candidates)  # type: ignore[arg-type]
    assert torch.equal(few, matrix[:, candidates])


def test_a_trained_triple_scores_as_if_it_had_not_been_trained_on(ring: Graph) -> None:
    triple = ring.train[:1].astype(np.int64)
    scores = []
    for train in (ring.train, ring.train[1:]):
        known = KnownTriples(train, len(ring.entities), len(ring.relations))
        inverse = mine(known, seconds=1e9).rules
        inverse = inverse[(inverse[:, :6] == [0, -1, 4, -1, -1, -1]).all(axis=1)]  # r0(x, y) ⇐ r1(y, x)
        assert len(inverse) == 1
        scores.append(float(Rules(inverse, known).score_triples(torch.from_numpy(triple))))
    assert scores[0] == scores[1] > 0


def test_reasons_are_the_strongest_rules_with_their_groundings(rules: Rules, ring: Graph) -> None:
    reasons = rules.reasons(ring.test, most=4)
    assert (np.diff(reasons.confidences, axis=1) <= 0).all()
    assert (reasons.strongest == reasons.confidences[:, 0]).all()
    for triple, numbers in zip(ring.test, reasons.numbers, strict=True):
        for number in numbers[numbers >= 0]:
            found = groundings(rules.trained, rules.rows[number], triple)
            assert found
            for grounding in found:
                assert rules.trained.has(np.array(grounding)).all()
                assert tuple(triple.tolist()) not in grounding


def test_rules_are_told_in_names(ring: Graph) -> None:
    assert rule_in_words(ring, [0, -1, 4, -1, -1, -1, 9, 9, 0]) == "x r0 y ⇐ y r1 x"
    assert rule_in_words(ring, [2, -1, 0, 4, -1, -1, 9, 9, 0]) == "x r2 y ⇐ x r0 z, y r1 z"
    assert rule_in_words(ring, [0, 7, 1, -1, -1, 5, 9, 9, 0]) == "x r0 e007 ⇐ x r1 e005"
    assert rule_in_words(ring, [3, 7, 1, -1, -1, -1, 9, 9, 0]) == "e007 r0 x ⇐ x r1 anything"
    assert grounding_in_words(ring, [(1, 0, 2), (2, 1, 3)]) == "e001 r0 e002, e002 r1 e003"


def test_strengths_are_the_score_and_the_strongest_reason_in_one_pass(rules: Rules, ring: Graph) -> None:
    triples = ring.test
    scores, strongest = rules.strengths(triples)
    assert np.array_equal(scores, rules.score(torch.from_numpy(triples.astype(np.int64))).numpy())
    assert np.array_equal(strongest, rules.reasons(triples, 1).strongest)
    assert [len(column) for column in rules.strengths(triples[:0])] == [0, 0]
