from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import make_graph

from transher.errors import TransherError
from transher.graph.graph import Graph
from transher.training.batches import Batch, Batches
from transher.training.settings import TrainingSettings


def random_graph(seed: int, entities: int = 30, relations: int = 3, triples: int = 100, **more: Any) -> Graph:
    draws = np.random.default_rng(seed).integers([entities, relations, entities], size=(triples, 3))
    return make_graph(np.unique(draws, axis=0), entities=entities, relations=relations, **more)


def batches(graph: Graph, reciprocal: bool = False, **settings: object) -> Batches:
    return Batches(graph, TrainingSettings(**{"batch": 16, "negatives": 8, **settings}), reciprocal)


def positives(batch: Batch) -> list[tuple[int, int, int]]:
    """As (head, relation, tail)."""
    anchor, answer = batch.entity_ids[batch.anchors], batch.entity_ids[batch.answers]
    relation = batch.relation_ids[batch.relations]
    ends = (anchor, relation, answer) if batch.side == "tail" else (answer, relation, anchor)
    return list(zip(*(part.tolist() for part in ends), strict=True))


def negatives(batch: Batch) -> list[list[int]]:
    """Ids (B, N)."""
    rows: list[list[int]] = []
    for part, places in batch.groups:
        ids, count = batch.entity_ids[places], part.stop - part.start
        rows += ids.repeat_interleave(-(-count // len(ids)), 0)[:count].tolist()
    return rows


def test_an_epoch_shows_every_triple_once_for_each_side() -> None:
    graph = random_graph(0)
    source = batches(graph)
    for parity, side in ((0, "tail"), (1, "head")):
        seen = []
        for turn in range(source.per_epoch):
            batch = source.at(2 * turn + parity)
            assert batch.side == side
            seen += positives(batch)
        assert sorted(seen) == sorted(map(tuple, graph.train.tolist()))


@pytest.mark.parametrize("pools", [1, "each"])
@pytest.mark.parametrize("typed", [False, True])
@given(seed=st.integers(0, 50), step=st.integers(0, 40))
@settings(max_examples=20)
def test_valid_negatives_are_exactly_those_that_make_no_training_triple(
    pools: int | str, typed: bool, seed: int, step: int
) -> None:
    types = np.arange(30, dtype=np.int32) % 3
    graph = random_graph(seed, entity_types=types, type_names=("a", "b", "c"))
    batch = batches(graph, pools=pools, typed=typed, negatives=12, seed=seed).at(step)
    known = set(map(tuple, graph.train.tolist()))
    assert batch.valid is not None
    for (head, relation, tail), row, valid in zip(positives(batch), negatives(batch), batch.valid, strict=True):
        counted: set[int] = set()
        for entity, counts in zip(row, valid.tolist(), strict=True):
            made = (head, relation, entity) if batch.side == "tail" else (entity, relation, tail)
            padding = typed and pools == 1 and entity in counted
            if not padding:
                assert counts == (made not in known)
            counted.add(entity)
            if typed:
                assert types[entity] == types[tail if batch.side == "tail" else head]


def test_typed_pools_pad_a_small_type_without_counting_anyone_twice() -> None:
    types = np.array([0] * 28 + [1] * 2, dtype=np.int32)
    graph = random_graph(1, entity_types=types, type_names=("many", "few"))
    source = batches(graph, typed=True, filter_known=False, negatives=12, batch=100)
    batch = source.at(0)
    assert batch.valid is not None
    for (_, _, tail), row, valid in zip(positives(batch), negatives(batch), batch.valid, strict=True):
        counted = [entity for entity, counts in zip(row, valid.tolist(), strict=True) if counts]
        assert len(counted) == len(set(counted)) == (12 if types[tail] == 0 else 2)


def test_without_filter_every_negative_counts() -> None:
    assert batches(random_graph(0), filter_known=False).at(0).valid is None


@pytest.mark.parametrize("pools", [1, 3, 5, 16, 40])
def test_each_run_of_positives_has_a_pool_of_its_own(pools: int) -> None:
    graph = random_graph(0)
    batch = batches(graph, pools=pools).at(0)
    drawn = [tuple(row) for row in negatives(batch)]
    run = -(-len(drawn) // pools)
    for first in range(0, len(drawn), run):
        assert len(set(drawn[first : first + run])) == 1
    assert len(set(drawn)) == -(-len(drawn) // run)
    assert batch.valid is not None
    known = set(map(tuple, graph.train.tolist()))
    for (head, relation, tail), row, counts in zip(positives(batch), drawn, batch.valid.tolist(), strict=True):
        for entity, does in zip(row, counts, strict=True):
            false = (head, relation, entity) if batch.side == "tail" else (entity, relation, tail)
            assert does == (false not in known)


def test_a_step_gives_the_same_batch_whenever_it_is_asked_for() -> None:
    graph = random_graph(0)
    first, second = batches(graph, seed=3), batches(graph, seed=3)
    for step in range(30):
        second.at(step)
    again, fresh = second.at(7), first.at(7)
    assert torch.equal(again.entity_ids, fresh.entity_ids)
    assert torch.equal(again.anchors, fresh.anchors)
    assert torch.equal(again.groups[0][1], fresh.groups[0][1])
    assert not torch.equal(batches(graph, seed=4).at(7).anchors, fresh.anchors)


def test_weights_count_triples_of_both_ends_plus_the_offset() -> None:
    graph = make_graph([(0, 0, 1), (0, 0, 2), (3, 0, 1), (0, 1, 1)])
    batch = batches(graph, count_offset=3).at(0)
    expected = {(0, 0, 1): 2 + 2, (0, 0, 2): 2 + 1, (3, 0, 1): 1 + 2, (0, 1, 1): 1 + 1}
    for triple, weight in zip(positives(batch), batch.weights.tolist(), strict=True):
        assert weight == pytest.approx(1 / np.sqrt(expected[triple] + 6))


def test_weights_by_query_count_the_answers_of_the_side_that_is_asked_for() -> None:
    graph = make_graph([(0, 0, 1), (0, 0, 2), (3, 0, 1), (0, 1, 1)])
    source = batches(graph, count_offset=3, weighting="query")
    expected = {
        "tail": {(0, 0, 1): 2, (0, 0, 2): 2, (3, 0, 1): 1, (0, 1, 1): 1},
        "head": {(0, 0, 1): 2, (0, 0, 2): 1, (3, 0, 1): 2, (0, 1, 1): 1},
    }
    for batch in (source.at(0), source.at(1)):
        for triple, weight in zip(positives(batch), batch.weights.tolist(), strict=True):
            assert weight == pytest.approx(1 / np.sqrt(expected[batch.side][triple] + 3))


def test_weights_of_the_graph_multiply() -> None:
    graph = make_graph([(0, 0, 1), (1, 0, 2)], train_weights=np.array([2.0, 5.0], dtype=np.float32))
    batch = batches(graph, weighting="none").at(0)
    assert dict(zip(positives(batch), batch.weights.tolist(), strict=True)) == {(0, 0, 1): 2.0, (1, 0, 2): 5.0}


def test_reciprocal_relations_ask_for_heads_with_rows_of_their_own() -> None:
    source = batches(random_graph(0), reciprocal=True, translation_l2=0.0)
    tails, heads = source.at(0), source.at(1)
    assert tails.side == heads.side == "tail"
    assert tails.relation_ids.max() < 3 <= heads.relation_ids.min()


def test_more_negatives_than_entities_means_all_of_them() -> None:
    batch = batches(random_graph(0), negatives=500).at(0)
    assert sorted(negatives(batch)[0]) == list(range(30))


def test_what_cannot_be_trained_on_is_refused() -> None:
    with pytest.raises(TransherError, match="nothing to learn from"):
        batches(make_graph([], [(0, 0, 1)]))
    with pytest.raises(TransherError, match="types"):
        batches(random_graph(0), typed=True)
