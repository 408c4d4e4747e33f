"""Which known triples moved an answer most.

By gradient, in the manner of TracIn (Pruthi et al. 2020): a step of training on a known triple z moves the rows that it
shares with the asked triple x along ∇ log σ(f(z)) = σ(−f(z)) ∇f(z), and that moves the score of x by
σ(−f(z)) ∇f(x)·∇f(z) a unit of learning rate. That is the first-order size of what learning z again does for x, or, with
the other sign, of unlearning it. Triples that are fitted well already push little. It is an approximation: a training
without z would also let other triples move further. Only triples with an entity of x are looked at; what flows through
the relation's row is counted for those of them that have the same relation.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.graph.graph import Graph
from transher.models.embeddings import Embeddings

_LOOKED_AT = 1_000  # triples of each end, at most


def influences(scorer: Embeddings, graph: Graph, asked: tuple[int, int, int]) -> tuple[NDArray[np.int32], Tensor]:
    """Training triples (n, 3) that share an entity with the asked one, without itself, and how much each moved its
    score (n,); positive where it speaks for it."""
    triples = _neighbours(graph, asked)
    _, target = _gradients(scorer, np.array([asked]))
    scores, own = _gradients(scorer, triples)
    moved = torch.zeros(len(triples))
    heads, relations, tails = torch.from_numpy(triples.astype(np.int64)).unbind(1)
    head, relation, tail = asked
    for entity, gradient in ((head, target[0]), (tail, target[2])):
        moved += (own[0] @ gradient[0]) * (heads == entity) + (own[2] @ gradient[0]) * (tails == entity)
    moved += (own[1] @ target[1][0]) * (relations == relation)
    return triples, torch.sigmoid(-scores) * moved


def _neighbours(graph: Graph, asked: tuple[int, int, int]) -> NDArray[np.int32]:
    head, relation, tail = asked
    train = graph.train
    chosen = []
    for entity in {head, tail}:
        touching = np.flatnonzero((train[:, 0] == entity) | (train[:, 2] == entity))
        # Of a hub's triples those of the asked relation come first: they share two rows with it.
        order = np.argsort(train[touching, 1] != relation, kind="stable")[:_LOOKED_AT]
        chosen.append(touching[order])
    triples = train[np.unique(np.concatenate(chosen))]
    others: NDArray[np.int32] = triples[~(triples == np.array(asked)).all(1)]
    return others


def _gradients(scorer: Embeddings, triples: NDArray[np.integer]) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Scores (n,) of triples and each score's gradient with respect to its own head, relation and tail rows: (n, d),
    (n, w), (n, d). Every triple gets a copy of its rows, so one backward pass keeps them apart."""
    heads, relations, tails = torch.from_numpy(triples.astype(np.int64)).unbind(1)
    tables = (scorer.entity_weights, scorer.relation_weights, scorer.entity_weights)
    rows = [table[ids].clone().requires_grad_() for table, ids in zip(tables, (heads, relations, tails), strict=True)]
    model = scorer.model
    query = model.query(model.entities(rows[0]), rows[1], "tail")
    scores = model.pairs(query, model.entities(rows[2]))
    first, second, third = torch.autograd.grad(scores.sum(), rows)
    return scores.detach(), (first, second, third)
