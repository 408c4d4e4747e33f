"""Sampled ranking against OGB's own evaluator, on the same scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.evaluation.small_graphs import random_graph, whole_number_scorer

from transher.errors import TransherError, UsageError
from transher.evaluation import sampled
from transher.evaluation.metrics import Metrics
from transher.evaluation.sampled import rank_among_candidates
from transher.graph.graph import SIDES, Candidates, Graph, Side
from transher.models import MODELS, embeddings
from transher.models.embeddings import Embeddings


def with_candidates(count: int = 15, seed: int = 0) -> tuple[Graph, Candidates]:
    graph = random_graph(seed, entities=20, count=120)
    rng = np.random.default_rng(seed)
    shape = len(graph.test), count
    head, tail = (rng.integers(len(graph.entities), size=shape).astype(np.int32) for _ in SIDES)
    return graph, Candidates(head, tail)


def random_scorer(graph: Graph, name: str) -> Embeddings:
    torch.manual_seed(1)
    model = MODELS[name](12, 6.0)
    weights = torch.randn(len(graph.entities), model.entity_width), torch.randn(3, model.relation_width)
    return Embeddings(model, *weights)


def scores_of(
    scorer: Embeddings, graph: Graph, candidates: Candidates, side: Side
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positive (n,) and negative (n, m) scores, one triple at a time."""
    position = 0 if side == "head" else 2
    ids = np.concatenate([graph.test[:, position, None], getattr(candidates, side)], axis=1)
    triples = torch.from_numpy(np.repeat(graph.test, ids.shape[1], axis=0)).long()
    triples[:, position] = torch.from_numpy(ids.reshape(-1)).long()
    scores = scorer.score_triples(triples, side).view(ids.shape)
    return scores[:, 0], scores[:, 1:]


@pytest.mark.parametrize("benchmark", ["ogbl-wikikg2", "ogbl-biokg"])
@pytest.mark.parametrize("name", ["whole numbers with ties", *sorted(MODELS)])
def test_equals_the_evaluator_of_ogb(benchmark: str, name: str) -> None:
    evaluator = pytest.importorskip("ogb.linkproppred").Evaluator(name=benchmark)
    graph, candidates = with_candidates()
    scorer = whole_number_scorer(graph) if name not in MODELS else random_scorer(graph, name)
    ranks = rank_among_candidates(scorer, graph.test, candidates)
    assert name in MODELS or ranks.tied.mean() > 0.3
    lists: dict[str, list[torch.Tensor]] = {}
    for side in SIDES:
        positive, negative = scores_of(scorer, graph, candidates, side)
        of_ogb = evaluator.eval({"y_pred_pos": positive, "y_pred_neg": negative})
        ours = ranks.of_side(side).realistic
        torch.testing.assert_close(torch.from_numpy(1 / ours).float(), of_ogb["mrr_list"], rtol=0, atol=0)
        for metric, values in of_ogb.items():
            lists.setdefault(metric, []).append(values)
    metrics = Metrics.of(ranks)
    for metric, figure in (
        ("mrr_list", metrics.mrr),
        ("hits@1_list", metrics.hits_at_1),
        ("hits@3_list", metrics.hits_at_3),
        ("hits@10_list", metrics.hits_at_10),
    ):
        assert figure == pytest.approx(torch.cat(lists[metric]).double().mean().item(), abs=1e-8)


def test_the_size_of_the_chunks_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, candidates = with_candidates()
    scorer = whole_number_scorer(graph)
    whole = rank_among_candidates(scorer, graph.test, candidates)
    monkeypatch.setattr(sampled, "_CANDIDATES", 20)
    monkeypatch.setattr(embeddings, "_OWN", 100)
    monkeypatch.setattr(embeddings, "PAIRED", 60)
    seen: list[tuple[int, int]] = []
    pieces = rank_among_candidates(scorer, graph.test, candidates, lambda *now: seen.append(now))
    np.testing.assert_array_equal(pieces.optimistic, whole.optimistic)
    np.testing.assert_array_equal(pieces.pessimistic, whole.pessimistic)
    assert seen[-1] == (len(whole), len(whole))


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("side", SIDES)
def test_the_answer_ties_exactly_with_itself_as_a_candidate(name: str, side: Side) -> None:
    graph, candidates = with_candidates()
    answers = graph.test[:, 0 if side == "head" else 2]
    repeated = np.repeat(answers[:, None], 7, axis=1)
    ranks = rank_among_candidates(random_scorer(graph, name), graph.test, replace(candidates, **{side: repeated}))
    assert (ranks.of_side(side).optimistic == 1).all()
    assert (ranks.of_side(side).pessimistic == 8).all()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_scores_of_own_candidates_are_those_of_single_triples(name: str) -> None:
    graph, candidates = with_candidates()
    scorer = random_scorer(graph, name)
    head, relation, _ = graph.test.T
    expected = scores_of(scorer, graph, candidates, "tail")[1]
    torch.testing.assert_close(
        scorer.score_own(
            torch.from_numpy(head.astype(np.int64)),
            torch.from_numpy(relation.astype(np.int64)),
            "tail",
            torch.from_numpy(candidates.tail.astype(np.int64)),
        ),
        expected,
        rtol=1e-4,
        atol=1e-4,
    )


def test_nan_is_refused() -> None:
    graph, candidates = with_candidates()
    scorer = whole_number_scorer(graph)
    scorer.entity_weights[candidates.tail[0, 0]] = torch.nan
    with pytest.raises(TransherError, match="NaN"):
        rank_among_candidates(scorer, graph.test, candidates)


def test_candidates_of_another_split_are_refused() -> None:
    graph, candidates = with_candidates()
    with pytest.raises(UsageError, match="candidates for the heads of"):
        rank_among_candidates(whole_number_scorer(graph), graph.test[:-1], candidates)
