"""Full ranking against a loop in plain Python, and what must hold whatever the graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.small_graphs import graph_seeds, random_graph, score_table, whole_number_scorer

from transher import scorer as scoring
from transher.errors import InputError, TransherError, UsageError
from transher.evaluation.ranking import rank
from transher.evaluation.ranks import Ranks
from transher.graph.graph import SIDES, SPLITS, Graph
from transher.graph.known import KnownTriples
from transher.models import MODELS, Query, embeddings
from transher.models.distmult import DistMult
from transher.models.embeddings import Embeddings

quick = settings(max_examples=60)
seeds = st.integers(0, 10_000)


def brute_force(scorer: Embeddings, graph: Graph) -> list[tuple[int, int]]:
    """(optimistic, pessimistic) of every query, heads first, by one comparison at a time."""
    table = score_table(scorer)
    true = {tuple(triple) for triple in graph.all_triples.tolist()}
    ranks = []
    for side in SIDES:
        for head, relation, tail in graph.test.tolist():
            own, better, tied = table[head, relation, tail], 0, 0
            for candidate in range(len(graph.entities)):
                rival = (candidate, relation, tail) if side == "head" else (head, relation, candidate)
                if rival not in true:
                    better += int(table[rival] > own)
                    tied += int(table[rival] == own)
            ranks.append((1 + better, 1 + better + tied))
    return ranks


def as_pairs(ranks: Ranks) -> list[tuple[int, int]]:
    return list(zip(ranks.optimistic.tolist(), ranks.pessimistic.tolist(), strict=True))


@quick
@given(graph_seeds, seeds)
def test_ranks_equal_a_loop_in_plain_python(graph: Graph, seed: int) -> None:
    scorer = whole_number_scorer(graph, seed)
    assert as_pairs(rank(scorer, graph.test, graph.known)) == brute_force(scorer, graph)


@quick
@given(graph_seeds, seeds, st.integers(1, 40), st.integers(1, 40))
def test_the_size_of_the_chunks_does_not_matter(graph: Graph, seed: int, scores: int, candidates: int) -> None:
    scorer = whole_number_scorer(graph, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embeddings, "SCORES", scores)
        patch.setattr(embeddings, "CHUNK", candidates)
        patch.setattr(scoring, "_COMPARED", candidates)
        assert as_pairs(rank(scorer, graph.test, graph.known)) == brute_force(scorer, graph)


@quick
@given(graph_seeds, seeds)
def test_optimistic_realistic_and_pessimistic_are_in_order(graph: Graph, seed: int) -> None:
    ranks = rank(whole_number_scorer(graph, seed), graph.test, graph.known)
    assert (ranks.optimistic >= 1).all()
    assert (ranks.optimistic <= ranks.realistic).all()
    assert (ranks.realistic <= ranks.pessimistic).all()
    assert (ranks.pessimistic <= len(graph.entities)).all()
    assert (ranks.tied == (ranks.optimistic != ranks.realistic)).all()


@quick
@given(graph_seeds, seeds)
def test_more_known_triples_never_worsen_a_rank(graph: Graph, seed: int) -> None:
    scorer = whole_number_scorer(graph, seed)
    fewer = rank(scorer, graph.test, replace(graph, train=graph.train[::2]).known)
    more = rank(scorer, graph.test, graph.known)
    assert (more.optimistic <= fewer.optimistic).all()
    assert (more.pessimistic <= fewer.pessimistic).all()


@quick
@given(graph_seeds, seeds)
def test_renumbering_the_entities_keeps_the_ranks(graph: Graph, seed: int) -> None:
    scorer = whole_number_scorer(graph, seed)
    new = np.random.default_rng(seed).permutation(len(graph.entities)).astype(np.int32)
    train, valid, test = (graph.split(name).copy() for name in SPLITS)
    for triples in (train, valid, test):
        triples[:, ::2] = new[triples[:, ::2]]
    renumbered = replace(graph, train=train, valid=valid, test=test)
    weights = torch.empty_like(scorer.entity_weights)
    weights[torch.from_numpy(new).long()] = scorer.entity_weights
    before = rank(scorer, graph.test, graph.known)
    after = rank(replace(scorer, entity_weights=weights), renumbered.test, renumbered.known)
    assert as_pairs(before) == as_pairs(after)


def test_an_answer_that_is_not_among_the_known_ones_is_not_its_own_rival() -> None:
    graph = random_graph()
    nothing = KnownTriples(graph.train[:0], len(graph.entities), len(graph.relations))
    scorer = whole_number_scorer(graph)
    constant = replace(scorer, entity_weights=torch.zeros_like(scorer.entity_weights))
    ranks = rank(constant, graph.test, nothing)
    assert set(as_pairs(ranks)) == {(1, len(graph.entities))}


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("reciprocal", [False, True])
def test_every_model_can_be_ranked(name: str, reciprocal: bool) -> None:
    graph = random_graph(entities=20, count=100)
    torch.manual_seed(0)
    model = MODELS[name](8, 6.0)
    rows = len(graph.relations) * (2 if reciprocal else 1)
    weights = torch.randn(len(graph.entities), model.entity_width), torch.randn(rows, model.relation_width)
    scorer = Embeddings(model, *weights, reciprocal)
    ranks = rank(scorer, graph.test, graph.known)
    for position, side in zip((0, 2), SIDES, strict=True):
        every = torch.from_numpy(graph.test).long().repeat_interleave(len(graph.entities), 0)
        every[:, position] = torch.arange(len(graph.entities)).repeat(len(graph.test))
        scores = scorer.score_triples(every, side).view(len(graph.test), -1).double()
        own = scores[torch.arange(len(scores)), torch.from_numpy(graph.test[:, position]).long()]
        # Unfiltered and from single scores: an upper bound that rounding cannot cross.
        assert (ranks.of_side(side).pessimistic <= (scores >= own[:, None] - 1e-4).sum(1).numpy()).all()


@pytest.mark.parametrize("side", ["entity_weights", "relation_weights"])
def test_a_model_that_emits_nan_is_refused_rather_than_perfect(side: str) -> None:
    graph = random_graph()
    scorer = whole_number_scorer(graph)
    weights = getattr(scorer, side).clone()
    weights[graph.test[0, 1] if side == "relation_weights" else 5, 0] = torch.nan
    with pytest.raises(TransherError, match="NaN"):
        rank(replace(scorer, **{side: weights}), graph.test, graph.known)


def test_infinite_scores_are_ranked_as_numbers() -> None:
    graph = random_graph()
    scorer = whole_number_scorer(graph)
    endless = replace(scorer, entity_weights=scorer.entity_weights.abs() + 1, relation_weights=torch.ones(3, 2))
    endless.entity_weights[:, 0] = torch.inf
    ranks = rank(endless, graph.test, graph.known)
    assert (ranks.optimistic == 1).all()
    assert ranks.tied.any()


def test_triples_of_another_graph_are_refused() -> None:
    graph = random_graph()
    foreign = np.array([[0, 0, 99]], dtype=np.int32)
    with pytest.raises(UsageError, match="entities from 0 to 99, but the model has 12"):
        rank(whole_number_scorer(graph), foreign, graph.known)


def test_the_memory_does_not_grow_with_the_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = {"matrix": 0, "chunk": 0, "rows": 0}

    class Watched(DistMult):
        def cross(self, query: Query, candidates: torch.Tensor) -> torch.Tensor:
            largest["chunk"] = max(largest["chunk"], len(query[0]) * len(candidates))
            largest["rows"] = max(largest["rows"], candidates.numel())
            return super().cross(query, candidates)

    def count(matrix: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        largest["matrix"] = max(largest["matrix"], matrix.numel())
        return scoring.count_in_matrix(matrix, *arguments)

    monkeypatch.setattr("transher.models.model.count_in_matrix", count)
    graph = random_graph(entities=200_000, relations=2, count=1000)
    scorer = Embeddings(Watched(32, 1.0), torch.randn(200_000, 32), torch.randn(2, 32))
    rank(scorer, graph.test, graph.known)
    assert 1 << 23 < largest["matrix"] <= 1 << 24
    assert largest["chunk"] <= 1 << 22
    assert largest["rows"] <= 1 << 22


def test_progress_reaches_the_number_of_queries() -> None:
    graph = random_graph()
    seen: list[tuple[int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embeddings, "SCORES", 50)
        rank(whole_number_scorer(graph), graph.test, graph.known, lambda *now: seen.append(now))
    assert seen == sorted(seen)
    assert len(seen) > 2
    assert seen[-1] == (2 * len(graph.test), 2 * len(graph.test))


def test_no_triples_give_no_ranks() -> None:
    graph = random_graph()
    assert len(rank(whole_number_scorer(graph), graph.test[:0], graph.known)) == 0


def test_ranks_survive_a_file(tmp_path: Path) -> None:
    graph = random_graph()
    ranks = rank(whole_number_scorer(graph), graph.test, graph.known)
    ranks.save(tmp_path / "ranks.parquet")
    loaded = Ranks.load(tmp_path / "ranks.parquet", graph)
    for field in ("triple", "triples", "side", "optimistic", "pessimistic"):
        np.testing.assert_array_equal(getattr(loaded, field), getattr(ranks, field))
        assert getattr(loaded, field).dtype == getattr(ranks, field).dtype


def test_a_truncated_file_of_ranks_says_so(tmp_path: Path) -> None:
    graph = random_graph()
    path = tmp_path / "ranks.parquet"
    rank(whole_number_scorer(graph), graph.test, graph.known).save(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"ranks\.parquet.*Evaluate the run again"):
        Ranks.load(path, graph)
