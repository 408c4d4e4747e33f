"""Evaluating a split: which protocol, which triples, and what the result says."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.evaluation.small_graphs import random_graph, whole_number_scorer

from transher.errors import UsageError
from transher.evaluation import Metrics, evaluate, rank, rank_among_candidates
from transher.graph.graph import Candidates, Graph

GRAPH = random_graph(entities=30, relations=4, count=400)
SCORER = whole_number_scorer(GRAPH)


def with_candidates() -> Graph:
    rng = np.random.default_rng(0)
    head, tail = (rng.integers(30, size=(len(GRAPH.test), 9)).astype(np.int32) for _ in range(2))
    return replace(GRAPH, candidates={"test": Candidates(head, tail)})


def test_a_plain_graph_is_ranked_in_full() -> None:
    evaluation = evaluate(SCORER, GRAPH)
    assert evaluation.protocol == "full"
    assert evaluation.overall == Metrics.of(rank(SCORER, GRAPH.test, GRAPH.known))
    assert evaluation.queries_per_second > 0


def test_supplied_candidates_are_used_for_their_split_alone() -> None:
    graph = with_candidates()
    evaluation = evaluate(SCORER, graph)
    assert evaluation.protocol == "sampled"
    assert evaluation.overall == Metrics.of(rank_among_candidates(SCORER, graph.test, graph.candidates["test"]))
    assert evaluate(SCORER, graph, "valid").protocol == "full"


@pytest.mark.parametrize("graph", [GRAPH, with_candidates()], ids=["full", "sampled"])
def test_a_sample_is_fixed_and_ranks_its_triples_as_the_whole_does(graph: Graph) -> None:
    whole = evaluate(SCORER, graph).ranks
    part = evaluate(SCORER, graph, sample=20).ranks
    assert len(part) == 40
    chosen = np.concatenate([part.triple[:20], part.triple[20:] + len(graph.test)])
    np.testing.assert_array_equal(part.triples, whole.triples[chosen])
    np.testing.assert_array_equal(part.realistic, whole.realistic[chosen])
    np.testing.assert_array_equal(part.triple, evaluate(SCORER, graph, sample=20).ranks.triple)
    assert (part.triple != evaluate(SCORER, graph, sample=20, seed=1).ranks.triple).any()
    assert len(evaluate(SCORER, graph, sample=10**6).ranks) == len(whole)


def test_the_result_is_json_with_relations_by_identifier() -> None:
    result = evaluate(SCORER, GRAPH, "valid").to_dict()
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["split"] == "valid"
    assert result["triples"] == len(GRAPH.valid)
    assert set(result["by_relation"]) <= {f"relation {i}" for i in range(4)}
    assert set(result["by_type"]) == {"head", "tail"}
    cells = [cell["count"] for row in result["by_type"].values() for cell in row.values()]
    assert sum(cells) == result["overall"]["count"] == 2 * len(GRAPH.valid)


def test_an_empty_split_and_an_empty_sample_are_refused() -> None:
    with pytest.raises(UsageError, match="has no test triples"):
        evaluate(SCORER, replace(GRAPH, test=GRAPH.test[:0]))
    with pytest.raises(UsageError, match="at least one"):
        evaluate(SCORER, GRAPH, sample=0)
