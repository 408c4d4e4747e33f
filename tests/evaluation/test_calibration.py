from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit
from tests.conftest import make_graph
from tests.evaluation.small_graphs import random_graph, whole_number_scorer

from transher.errors import InputError, UsageError
from transher.evaluation.calibration import Calibration, calibrate
from transher.evaluation.labelled import labelled_triples
from transher.evaluation.reliability import Reliability, report_calibration
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
    assert sample.base_rate == pytest.approx(1 / 5, abs=0.02)


def test_probabilities_order_answers_as_scores_do(calibration: Calibration) -> None:
    scores = np.linspace(-20, 20, 50)
    for relation in range(4):
        assert (np.diff(expit(calibration.logits(scores, relation, 0.1))) >= 0).all()
        assert (np.diff(calibration.logits(scores, relation, 0.1)) > 0).all()


def test_a_score_and_its_log_odds_are_inverse(calibration: Calibration) -> None:
    for base_rate in (0.01, 0.5):
        score = calibration.score_at(1.5, 2, base_rate)
        assert calibration.logits(score, 2, base_rate) == pytest.approx(1.5)


def test_the_base_rate_moves_the_odds_by_the_ratio_of_priors(calibration: Calibration) -> None:
    plain, rare = (np.exp(calibration.logits(0.3, 1, rate)) for rate in (calibration.base_rate, 0.01))

    def odds(probability: float) -> float:
        return probability / (1 - probability)

    assert rare == pytest.approx(plain * odds(0.01) / odds(calibration.base_rate))


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
    assert report_calibration(scorer, graph, found).after.calibration_error < 0.02


def test_a_relation_without_validation_triples_keeps_to_the_pooled_fit() -> None:
    graph = random_graph(seed=1, entities=40, relations=3, count=600)
    graph = make_graph(graph.train, graph.valid[graph.valid[:, 1] != 2], graph.test, entities=40, relations=3)
    found = calibrate(whole_number_scorer(graph, k=3), graph)
    assert found is not None
    assert found.positives[2] == 0
    assert min(found.slopes[:2]) - 0.1 <= found.slopes[2] <= max(found.slopes[:2]) + 0.1


def test_calibrated_probabilities_are_better_than_raw_ones(graph: Graph, calibration: Calibration) -> None:
    report = report_calibration(whole_number_scorer(graph, k=4), graph, calibration)
    assert report.after.brier < report.before.brier
    assert report.after.calibration_error < report.before.calibration_error
    assert report.to_dict()["after"]["bins"][0]["count"] > 0


def test_reliability_of_known_probabilities() -> None:
    found = Reliability.of(np.array([0.25, 0.25, 0.25, 0.25, 0.9, 0.9]), np.array([1, 0, 0, 0, 1, 0], dtype=bool))
    assert found.calibration_error == pytest.approx((0 * 4 + 0.4 * 2) / 6)
    assert found.brier == pytest.approx((0.75**2 + 3 * 0.25**2 + 0.1**2 + 0.9**2) / 6)


def test_a_graph_without_validation_triples_has_no_probabilities() -> None:
    graph = make_graph([(0, 0, 1), (1, 0, 2)])
    scorer = whole_number_scorer(graph)
    assert calibrate(scorer, graph) is None
    with pytest.raises(UsageError, match="no validation triples"):
        report_calibration(scorer, graph, None)


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


def test_a_calibration_of_two_sides_from_version_0_1_0_is_read_as_their_mean(
    graph: Graph, calibration: Calibration, tmp_path: Path
) -> None:
    calibration.save(tmp_path, graph)
    saved = json.loads((tmp_path / "calibration.json").read_text())
    for row in saved["relations"].values():
        slope, offset = row.pop("both")
        row |= {"head": [slope - 0.1, offset + 1], "tail": [slope + 0.1, offset - 1]}
    (tmp_path / "calibration.json").write_text(json.dumps(saved))
    again = Calibration.load(tmp_path, graph)
    assert again.slopes == pytest.approx(calibration.slopes)
    assert again.offsets == pytest.approx(calibration.offsets)


def test_a_saved_calibration_gives_the_same_and_a_broken_one_is_an_error(
    graph: Graph, calibration: Calibration, tmp_path: Path
) -> None:
    calibration.save(tmp_path, graph)
    again = Calibration.load(tmp_path, graph)
    assert np.array_equal(again.slopes, calibration.slopes)
    assert again.base_rate == calibration.base_rate
    saved = json.loads((tmp_path / "calibration.json").read_text())
    del saved["relations"]["relation 2"]
    (tmp_path / "calibration.json").write_text(json.dumps(saved))
    with pytest.raises(InputError, match="not a calibration"):
        Calibration.load(tmp_path, graph)
