"""Full ranking against PyKEEN's evaluator, which shares no code with ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.evaluation.small_graphs import random_graph, score_table, whole_number_scorer

from transher.evaluation.metrics import Metrics
from transher.evaluation.ranking import rank
from transher.graph.graph import SIDES, Graph

pytest.importorskip("pykeen")


def pykeen_evaluator(graph: Graph, table: torch.Tensor) -> tuple[Any, Any]:
    """PyKEEN's evaluator after it has ranked the test triples by the scores of `table` (heads, relations, tails)."""
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.models.mocks import FixedModel
    from pykeen.triples import CoreTriplesFactory

    class TableModel(FixedModel):
        def _generate_fake_scores(self, h: torch.Tensor, r: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return table[torch.broadcast_tensors(h, r, t)]

    train, valid, test = (torch.from_numpy(graph.split(name)).long() for name in ("train", "valid", "test"))
    factory = CoreTriplesFactory(train, num_entities=len(graph.entities), num_relations=len(graph.relations))
    evaluator = RankBasedEvaluator(filtered=True, clear_on_finalize=False)
    results = evaluator.evaluate(
        TableModel(triples_factory=factory),
        test,
        batch_size=16,
        use_tqdm=False,
        additional_filter_triples=[train, valid],
    )
    return evaluator, results


@pytest.mark.parametrize("seed", range(3))
def test_ranks_and_metrics_equal_pykeens(seed: int) -> None:
    graph = random_graph(seed, entities=40, relations=4, count=600)
    scorer = whole_number_scorer(graph, seed, k=4, bound=2)
    ranks = rank(scorer, graph.test, graph.known)
    assert 0.1 < ranks.tied.mean() < 1
    evaluator, results = pykeen_evaluator(graph, torch.from_numpy(score_table(scorer)))
    for side in SIDES:
        ours = ranks.of_side(side)
        for kind in ("optimistic", "realistic", "pessimistic"):
            theirs = np.concatenate(evaluator.ranks[side, kind])
            np.testing.assert_array_equal(getattr(ours, kind), theirs, err_msg=f"{side} {kind}")
    figures = Metrics.of(ranks)
    for name, figure in (
        ("both.realistic.inverse_harmonic_mean_rank", figures.mrr),
        ("both.optimistic.inverse_harmonic_mean_rank", figures.mrr_optimistic),
        ("both.pessimistic.inverse_harmonic_mean_rank", figures.mrr_pessimistic),
        ("both.realistic.arithmetic_mean_rank", figures.mr),
        ("both.realistic.hits_at_1", figures.hits_at_1),
        ("both.realistic.hits_at_3", figures.hits_at_3),
        ("both.realistic.hits_at_10", figures.hits_at_10),
    ):
        assert results.get_metric(name) == pytest.approx(figure, rel=1e-6), name
