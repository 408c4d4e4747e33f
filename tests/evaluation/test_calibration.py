from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit
from tests.conftest import make_graph
from tests.evaluation.small_graphs import random_graph, whole_number_scorer

from transher.evaluation.calibration import Calibration, calibrate
from transher.evaluation.labelled import labelled_triples
from transher.evaluation.reliability import Reliability
from transher.graph.graph import Graph
from transher.models.distmult import DistMult
from transher.models.embeddings import Embeddings


@pytest.fixture(scope="module")
def graph() -> Graph:
    return random_graph(seed=3, entities=60, relations=4, count=900)


@pytest.fixture(scope="module")
def calibration(graph: Graph) -> Calibration:
    found = calibrate(whole_number_scorer(graph, k=4), graph)
    assert found is not None
    return found


def test_negatives_are_unknown_and_of_the_right_kind_on_the_asked_side() -> None:
    # Heads of r0 are even and tails odd; r1 turns them round.
    triples = [(2 * i, 0, 2 * j + 1) for i in range(8) for j in range(8) if (i + j) % 3]
    triples += [(t, 1, h) for h, _, t in triples[::2]]
    graph = make_graph(triples[20:], triples[:20])
    sample = labelled_triples(graph, "valid", negatives=4)
    known = {tuple(triple) for triple in graph.all_triples.tolist()}
    for triple, holds in zip(sample.triples.tolist(), sample.holds, strict=True):
        assert (tuple(triple) in known) == holds
        head, relation, tail = triple
        assert (head % 2, tail % 2) == ((0, 1) if relation == 0 else (1, 0))
    assert sample.holds.mean() == pytest.approx(1 / 5, abs=0.02)


def test_probabilities_order_answers_as_scores_do(calibration: Calibration) -> None:
    scores = np.linspace(-20, 20, 50)
    for relation in range(4):
        assert (np.diff(calibration.logits(scores, relation)) > 0).all()


def test_calibration_finds_the_probabilities_that_made_the_data() -> None:
    """One relation is right with σ(2f − 1), another with σ(f/2): each fit must find its own."""
    rng = np.random.default_rng(0)
    entities = 400
    rows = torch.from_numpy(rng.normal(size=(entities, 3)).astype(np.float32))
    scorer = Embeddings(DistMult(3, 1.0), rows, torch.ones(2, 3))
    pairs = rng.integers(entities, size=(40_000, 2))
    scores = scorer.scores(torch.arange(entities), torch.zeros(entities, dtype=torch.int64), "tail").numpy()
    triples = []
    for relation, (slope, offset) in enumerate(((2.0, -1.0), (0.5, 0.0))):
        chance = 1 / (1 + np.exp(-(slope * scores[pairs[:, 0], pairs[:, 1]] + offset)))
        for head, tail in pairs[rng.random(len(pairs)) < chance]:
            triples.append((head, relation, tail))
    triples_array = np.unique(np.array(triples), axis=0)
    rng.shuffle(triples_array)
    graph = make_graph(triples_array[:-8000], triples_array[-8000:-4000], triples_array[-4000:], entities=entities)
    found = calibrate(scorer, graph)
    assert found is not None
    assert found.slopes[0] > 2.5 * found.slopes[1] > 0
    sample = labelled_triples(graph, "test", seed=1)
    given = expit(found.logits(sample.scores(scorer), sample.triples[:, 1]))
    assert Reliability.of(np.asarray(given, np.float64), sample.holds).calibration_error < 0.02


def test_a_relation_without_validation_triples_keeps_to_the_pooled_fit() -> None:
    graph = random_graph(seed=1, entities=40, relations=3, count=600)
    graph = make_graph(graph.train, graph.valid[graph.valid[:, 1] != 2], graph.test, entities=40, relations=3)
    found = calibrate(whole_number_scorer(graph, k=3), graph)
    assert found is not None
    assert min(found.slopes[:2]) - 0.1 <= found.slopes[2] <= max(found.slopes[:2]) + 0.1


def test_reliability_of_known_probabilities() -> None:
    found = Reliability.of(np.array([0.25, 0.25, 0.25, 0.25, 0.9, 0.9]), np.array([1, 0, 0, 0, 1, 0], dtype=bool))
    assert found.calibration_error == pytest.approx((0 * 4 + 0.4 * 2) / 6)
    assert found.brier == pytest.approx((0.75**2 + 3 * 0.25**2 + 0.1**2 + 0.9**2) / 6)


def test_a_graph_without_validation_triples_is_not_calibrated() -> None:
    graph = make_graph([(0, 0, 1), (1, 0, 2)])
    assert calibrate(whole_number_scorer(graph), graph) is None


def test_with_reciprocal_relations_the_mean_of_both_scores_is_calibrated(graph: Graph) -> None:
    plain = whole_number_scorer(graph, k=4)
    rows = torch.cat([plain.relation_weights, 3 * plain.relation_weights])
    both = Embeddings(plain.model, plain.entity_weights, rows, reciprocal=True)
    triples = torch.from_numpy(graph.test)
    assert torch.equal(both.score(triples), 2 * plain.score(triples))
    one, other = calibrate(plain, graph), calibrate(both, graph)
    assert one is not None
    assert other is not None
    assert other.slopes == pytest.approx(one.slopes / 2)
