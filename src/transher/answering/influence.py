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

from transher.graph.known import KnownTriples
from transher.models.embeddings import Embeddings

_LOOKED_AT = 1_000  # triples of each end, at most


def influences(
    scorer: Embeddings, trained: KnownTriples, asked: tuple[int, int, int]
) -> tuple[NDArray[np.int64], Tensor]:
    """Training triples (n, 3) that share an entity with the asked one, without itself, and how much each moved its
    score (n,); positive where it speaks for it."""
    triples = _neighbours(trained, asked)
    _, target = _gradients(scorer, np.array([asked]))
    scores, own = _gradients(scorer, triples)
    moved = torch.zeros(len(triples))
    heads, relations, tails = torch.from_numpy(triples.astype(np.int64)).unbind(1)
    head, relation, tail = asked
    for entity, gradient in ((head, target[0]), (tail, target[2])):
        moved += (own[0] @ gradient[0]) * (heads == entity) + (own[2] @ gradient[0]) * (tails == entity)
    moved += (own[1] @ target[1][0]) * (relations == relation)
    return triples, torch.sigmoid(-scores) * moved


def _neighbours(trained: KnownTriples, asked: tuple[int, int, int]) -> NDArray[np.int64]:
    head, relation, tail = asked
    chosen = []
    for entity in {head, tail}:
        _, ends, targets = trained.steps(np.array([entity]))
        relations, turned = ends % trained.relation_count, ends >= trained.relation_count
        triples = np.stack([np.where(turned, targets, entity), relations, np.where(turned, entity, targets)], axis=1)
        # Of a hub's triples those of the asked relation come first: they share two rows with it.
        chosen.append(triples[np.argsort(relations != relation, kind="stable")[:_LOOKED_AT]])
    triples = np.unique(np.concatenate(chosen), axis=0)
    others: NDArray[np.int64] = triples[~(triples == np.array(asked)).all(1)]
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
