"""The training step as others write it, in plain torch: with one set of negatives, or the authors' set per positive."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from transher.kernels import reference
from transher.training.batches import Batch
from transher.training.table import BETA1, BETA2, EPSILON, Table

GAMMA, LAMBDA = 6.0, 5e-5


def scaled_l1(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (N, k) → (B, N), as one writes it down."""
    return (q[:, None] - s[:, None] * e[None]).abs().sum(-1)


def self_adversarial(positive: Tensor, negative: Tensor, weights: Tensor, valid: Tensor | None = None) -> Tensor:
    """The paper's loss. positive: (B,), negative: (B, N), weights: (B,)."""
    scores = negative if valid is None else negative.masked_fill(~valid, -1e9)
    share = scores.detach().softmax(1)
    losses = -logsigmoid(positive) - (share * logsigmoid(-negative)).sum(1)
    return (weights * losses).sum() / (2 * weights.sum())


class SharedSet:
    """A whole step with one set of negatives for the batch: pull, scores, loss, gradient, row-sparse Adam. The batch is
    given, and always the same, so that a compiler sees one shape; nothing is sampled in the time that is measured."""

    def __init__(self, batch: Batch, entities: Table, relations: Table, compiled: bool) -> None:
        self.batch, self.entities, self.relations = batch, entities, relations
        self._loss = torch.compile(self._plain_loss, dynamic=False) if compiled else self._plain_loss

    def __call__(self) -> None:
        batch = self.batch
        entity_rows = self.entities.weight[batch.entity_ids].requires_grad_()
        relation_rows = self.relations.weight[batch.relation_ids].requires_grad_()
        self._loss(entity_rows, relation_rows).backward()
        for table, ids, rows in (
            (self.entities, batch.entity_ids, entity_rows),
            (self.relations, batch.relation_ids, relation_rows),
        ):
            assert rows.grad is not None
            moments = table.state["m"], table.state["v"]
            adam = reference.Adam(1e-6, BETA1, BETA2, EPSILON, 1)
            reference.adam_rows(table.weight, *moments, ids, rows.grad, adam)

    def _plain_loss(self, entity_rows: Tensor, relation_rows: Tensor) -> Tensor:
        batch = self.batch
        ((_, (negatives,)),) = batch.groups
        seen, rows = normalize(entity_rows, dim=-1), relation_rows[batch.relations]
        r_head, r_tail, translation = rows.chunk(3, -1)
        if batch.side == "tail":
            q, s = r_head * seen[batch.anchors] + translation, r_tail
        else:
            q, s = r_tail * seen[batch.anchors] - translation, r_head
        positive = GAMMA - (q - s * seen[batch.answers]).abs().sum(-1)
        negative = GAMMA - scaled_l1(q, s, seen[negatives])
        loss = self_adversarial(positive, negative, batch.weights, batch.valid)
        return loss + LAMBDA * relation_rows[:, -translation.shape[1] :].square().sum()


class AuthorsStep:
    """A whole step as the authors' code has it: negatives (B, N) of each positive's own, all of them normalised where
    they stand, and Adam over the whole tables. Negatives are drawn without a look at known triples."""

    def __init__(self, triples: Tensor, entity_count: int, relation_count: int, k: int, negatives: int) -> None:
        spread = (GAMMA + 2) / k
        there = triples.device
        self.entities = torch.empty(entity_count, k, device=there).uniform_(-spread, spread).requires_grad_()
        self.relations = torch.empty(relation_count, 3 * k, device=there).uniform_(-spread, spread).requires_grad_()
        self.triples, self.negatives = triples, negatives
        self.weights = torch.ones(len(triples), device=there)
        self.optimizer = torch.optim.Adam([self.entities, self.relations], lr=1e-6)

    def __call__(self) -> None:
        shape = len(self.triples), self.negatives
        own = torch.randint(len(self.entities), shape, device=self.triples.device)
        self.optimizer.zero_grad()
        positive, negative = self._scores(self.triples[:, 2:]), self._scores(own)
        loss = self_adversarial(positive[:, 0], negative, self.weights)
        loss = loss + LAMBDA * self.relations.chunk(3, -1)[2].square().sum()
        loss.backward()
        self.optimizer.step()

    def _scores(self, tails: Tensor) -> Tensor:
        """tails: (B, N) → (B, N)."""
        head = self.entities[self.triples[:, 0]].unsqueeze(1)
        r_head, r_tail, translation = self.relations[self.triples[:, 1]].unsqueeze(1).chunk(3, -1)
        tail = self.entities.index_select(0, tails.reshape(-1)).view(*tails.shape, -1)
        head, tail = normalize(head, dim=-1), normalize(tail, dim=-1)
        distances: Tensor = (head * r_head + translation - tail * r_tail).norm(p=1, dim=-1)
        return GAMMA - distances


class CrossAlone:
    """Distances of B queries to N candidates and their gradients, by whichever function."""

    def __init__(self, function: Any, batch: int, negatives: int, k: int, device: torch.device | None = None) -> None:
        generator = torch.Generator().manual_seed(0)
        shapes = ((batch, k), (batch, k), (negatives, k))
        self.inputs = [torch.randn(shape, generator=generator).to(device).requires_grad_() for shape in shapes]
        self.upstream = torch.rand(batch, negatives, generator=generator).to(device)
        self.function = function

    def __call__(self) -> None:
        for tensor in self.inputs:
            tensor.grad = None
        self.function(*self.inputs).backward(self.upstream)
