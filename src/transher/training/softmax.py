"""A training step with a softmax over all entities: every entity is a candidate of every query, and every entity moves.

The loss, all of it a mean over triples: cross-entropy of the answers among all entities; N3; and, where asked for, the
cross-entropy of the relation of (head, tail) among all relations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from transher import kernels
from transher.models.model import Model
from transher.training.queries import QueryBatch
from transher.training.settings import TrainingSettings
from transher.training.step import Gradients, Step

# Numbers of the rows of some triples, and of their scores with all relations: 16 MB each.
_HELD = 1 << 22


def step_bytes(model: Model, entities: int, settings: TrainingSettings) -> int:
    """What a step takes besides the tables that grows with the number of entities: the gradient of every row; where
    entities are seen in another way, their rows as seen and a second gradient; and in bfloat16 a copy of all that is
    multiplied, and a product."""
    seen = type(model).entities is not Model.entities
    return entities * model.entity_width * (4 + 8 * seen + 4 * (settings.precision == "bfloat16"))


class _Rows(NamedTuple):
    """The rows of a batch, and where in them those of its T triples are."""

    entities: Tensor  # (U, d), collects a gradient
    relations: Tensor  # (V, w), collects a gradient
    anchors: Tensor  # (T,)
    of_relations: Tensor  # (T,)
    answers: Tensor  # (T,)


@dataclass(frozen=True)
class SoftmaxStep(Step[QueryBatch]):
    """For models whose score is a dot product."""

    # Of the softmax over entities, whose gradients are still wanted when that over relations is computed.
    _room: kernels.Room = field(default_factory=kernels.Room, init=False, repr=False, compare=False)
    _relation_room: kernels.Room = field(default_factory=kernels.Room, init=False, repr=False, compare=False)

    def _gradients(self, batch: QueryBatch, step: int) -> tuple[float, Gradients]:
        entity_ids, places = kernels.distinct(torch.cat([batch.anchors, batch.answers]), len(self.entities.weight))
        anchors, answers = places.split([len(batch.anchors), len(batch.answers)])
        if self.settings.relation_prediction:
            relation_ids = torch.arange(len(self.relations.weight), device=batch.relations.device)
            relations = batch.relations
        else:
            relation_ids, relations = kernels.distinct(batch.relations, len(self.relations.weight))
        queries = torch.arange(len(batch.anchors), device=batch.anchors.device)
        owners = torch.repeat_interleave(queries, batch.offsets.diff())
        rows = _Rows(
            self.entities.pull(entity_ids),
            self.relations.pull(relation_ids),
            anchors[owners],
            relations[owners],
            answers,
        )
        seen = self.model.entities(kernels.take_rows(rows.entities, anchors))
        query = self._query(seen, kernels.take_rows(rows.relations, relations), batch.tail_count)
        value, d_entities = self._entropy(query, batch)
        if self.settings.n3:
            value += self._shrink(rows, batch.weights)
        if self.settings.relation_prediction:
            value += self._predict_relations(rows, owners >= batch.tail_count, batch.weights)
        assert rows.entities.grad is not None
        assert rows.relations.grad is not None
        d_entities.index_add_(0, entity_ids, rows.entities.grad)
        return value, Gradients(None, d_entities, relation_ids, rows.relations.grad)

    def _query(self, anchors: Tensor, relations: Tensor, tail_count: int) -> Tensor:
        """anchors: (B, d) as seen, relations: (B, w) → (B, d); the first `tail_count` are asked for tails."""
        tails, heads = slice(0, tail_count), slice(tail_count, None)
        parts = [self.model.query(anchors[tails], relations[tails], "tail")[0]] if tail_count else []
        if tail_count < len(anchors):
            parts.append(self.model.query(anchors[heads], relations[heads], "head")[0])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _entropy(self, query: Tensor, batch: QueryBatch) -> tuple[float, Tensor]:
        """The cross-entropy among all entities, and the gradient of their rows (entities, d) as candidates. That of
        the query goes backward from here."""
        everyone = self.entities.weight.detach().to(query.device).requires_grad_()
        candidates = self.model.entities(everyone)
        found = kernels.softmax_gradients(
            query.detach(),
            candidates.detach(),
            batch.offsets,
            batch.answers,
            batch.weights,
            self.settings.precision,
            room=self._room,
        )
        query.backward(found.query)
        if candidates is everyone:
            return found.loss, found.candidates
        candidates.backward(found.candidates)
        assert everyone.grad is not None
        return found.loss, everyone.grad

    def _shrink(self, rows: _Rows, weights: Tensor) -> float:
        """N3: the mean over triples of ‖h‖³₃ + ‖r‖³₃ + ‖t‖³₃. A row counts as often as triples have it."""
        loss = weights.new_zeros(())
        for part, places in ((rows.entities, (rows.anchors, rows.answers)), (rows.relations, (rows.of_relations,))):
            shares = kernels.sum_by(weights.repeat(len(places)), torch.cat(places), len(part))
            loss = loss + self.settings.n3 * (self.model.moduli(part).pow(3).sum(1) @ shares)
        loss.backward()
        return float(loss.detach())

    def _predict_relations(self, rows: _Rows, heads_asked: Tensor, weights: Tensor) -> float:
        """The weighted cross-entropy of each triple's relation among all, some triples at a time."""
        heads = torch.where(heads_asked, rows.answers, rows.anchors)
        tails = torch.where(heads_asked, rows.anchors, rows.answers)
        size = max(1, _HELD // max(rows.relations.shape))
        value = 0.0
        for part in torch.arange(len(heads), device=heads.device).split(size):
            seen = self.model.entities(kernels.take_rows(rows.entities, torch.cat([heads[part], tails[part]])))
            query = self.model.relation_query(*seen.split(len(part)))
            found = kernels.softmax_gradients(
                query.detach(),
                rows.relations.detach(),
                torch.arange(len(part) + 1, device=heads.device),
                rows.of_relations[part],
                self.settings.relation_prediction * weights[part],
                self.settings.precision,
                room=self._relation_room,
            )
            query.backward(found.query)
            rows.relations.backward(found.candidates)
            value += found.loss
        return value
