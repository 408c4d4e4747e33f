"""Small graphs and models whose scores are whole numbers, so that ties are frequent and exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from transher.graph.graph import Graph, Triples
from transher.graph.vocabulary import Vocabulary
from transher.models.distmult import DistMult
from transher.models.embeddings import Embeddings


def vocabulary(kind: str, count: int) -> Vocabulary:
    return Vocabulary(kind, pa.array([f"{kind} {i}" for i in range(count)]))


def random_triples(rng: np.random.Generator, count: int, entities: int, relations: int) -> Triples:
    draw = [rng.integers(size, size=count) for size in (entities, relations, entities)]
    return np.unique(np.stack(draw, axis=1).astype(np.int32), axis=0)


def random_graph(seed: int = 0, entities: int = 12, relations: int = 3, count: int = 60, **more: Any) -> Graph:
    rng = np.random.default_rng(seed)
    triples = rng.permutation(random_triples(rng, count, entities, relations))
    train, valid, test = np.split(triples, [len(triples) // 2, 3 * len(triples) // 4])
    names = vocabulary("entity", entities), vocabulary("relation", relations)
    return Graph("random", *names, train=train, valid=valid, test=test, **more)


def whole_number_scorer(graph: Graph, seed: int = 0, k: int = 2, bound: int = 2) -> Embeddings:
    """DistMult with small whole weights: its scores are whole numbers in any order of summation."""
    rng = np.random.default_rng(seed)
    entities, relations = (
        torch.from_numpy(rng.integers(-bound, bound + 1, size=(size, k)).astype(np.float32))
        for size in (len(graph.entities), len(graph.relations))
    )
    return Embeddings(DistMult(k, gamma=1.0), entities, relations)


def score_table(scorer: Embeddings) -> NDArray[np.float32]:
    """Score of every (head, relation, tail) by DistMult's formula, independent of how the scorer goes about it."""
    entities, relations = scorer.entity_weights.numpy(), scorer.relation_weights.numpy()
    scores: NDArray[np.float32] = np.einsum("hk,rk,tk->hrt", entities, relations, entities)
    return scores


graph_seeds = st.builds(
    lambda seed, entities, relations, count: random_graph(seed, entities, relations, count),
    st.integers(0, 10_000),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(4, 60),
)
