"""What rules are worth: fitted on validation triples, and near what is usual where there are few."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.conftest import make_graph

from transher.evaluation import evaluate
from transher.graph.graph import Graph
from transher.kernels.rules import Column
from transher.rules import Rules, mine
from transher.rules.worth import USUAL


@pytest.fixture(scope="module")
def misleading() -> Graph:
    """Where r1(x, x + 1) holds, r0(x, x + 1) often does. A rule with a constant, "r0(x, 97) where r2(x, 95)", is more
    confident, and wrong about those that are asked for."""
    generator = np.random.default_rng(0)
    rows = []
    for x in range(60):
        rows.append((x, 1, (x + 1) % 60))
        if generator.random() < 0.6:
            rows.append((x, 0, (x + 1) % 60))
    for x in range(60, 90):
        rows.append((x, 2, 95))
        rows.append((x, 0, 97))
    for x in range(0, 60, 3):
        rows.append((x, 2, 95))
    return make_graph(rows)


def rules_of_both_kinds(graph: Graph) -> Rules:
    closed = [0, -1, 1, -1, -1, -1, 30, 60, 0]
    constant = [0, 97, 2, -1, -1, 95, 45, 60, 0]
    return Rules(np.array([closed, constant], dtype=np.int32), graph.trained)


def test_kinds_that_mislead_are_worth_less(misleading: Graph) -> None:
    rules = rules_of_both_kinds(misleading)
    asked = np.array([(x, 0, x + 1) for x in range(0, 57, 3)])
    fitted = rules.fitted(asked, misleading.known)
    of = {"closed": fitted.worth.weights[0], "constant": fitted.worth.weights[3]}
    assert of["closed"] > 1.5 * of["constant"]
    triples = torch.tensor([[0, 0, 1], [0, 0, 97]])
    before, after = rules.score_triples(triples), fitted.score_triples(triples)
    assert before[0] < before[1]
    assert after[0] > after[1]


def test_few_triples_move_little(misleading: Graph) -> None:
    rules = rules_of_both_kinds(misleading)
    one = rules.fitted(np.array([(0, 0, 1)]), misleading.known).worth
    many = rules.fitted(np.array([(x, 0, x + 1) for x in range(0, 57, 3)]), misleading.known).worth
    ratios = [worth.weights[0] / worth.weights[3] for worth in (USUAL, one, many)]
    assert ratios[0] < ratios[1] < ratios[2]


def test_nothing_to_fit_on_leaves_what_is_usual(ring: Graph) -> None:
    rules = Rules(mine(ring.trained, seconds=1e9).rules, ring.trained)
    assert rules.fitted(ring.valid[:0], ring.known).worth == USUAL
    none = Rules(np.empty((0, len(Column)), np.int32), ring.trained)
    assert none.fitted(ring.valid, ring.known).worth == USUAL


def test_a_fit_is_the_same_each_time_and_no_worse(ring: Graph) -> None:
    rules = Rules(mine(ring.trained, seconds=1e9).rules, ring.trained)
    fitted = rules.fitted(ring.valid, ring.known)
    assert fitted.worth == rules.fitted(ring.valid, ring.known).worth
    before, after = (evaluate(one, ring, "test").to_dict()["overall"]["mrr"] for one in (rules, fitted))
    assert after >= before - 0.02
