"""One training step: pull the rows of a batch, score, take the loss and its gradient, push the rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from transher import kernels
from transher.errors import Diverged
from transher.models.model import Model
from transher.training.batches import AnyBatch, Batch, Batches, BatchSource
from transher.training.loss import batch_loss
from transher.training.schedule import learning_rate, resets_moments
from transher.training.settings import TrainingSettings
from transher.training.table import Table

AVERAGE_EVERY = 16  # steps: an average passes over whole tables


class Gradients(NamedTuple):
    """Of a step: (U, d) and (V, w), of the rows `entity_ids` (U,), or of every entity, and `relation_ids` (V,)."""

    entity_ids: Tensor | None
    entities: Tensor
    relation_ids: Tensor
    relations: Tensor


class Shares(NamedTuple):
    """What a part of a batch is of the whole, by the weights of its positives and by their number."""

    weights: float
    positives: float


WHOLE = Shares(1.0, 1.0)


@dataclass(frozen=True)
class Step(ABC, Generic[AnyBatch]):
    """Gradient descent on two tables."""

    model: Model
    settings: TrainingSettings
    batches: BatchSource[AnyBatch]
    entities: Table
    relations: Table

    def __call__(self, batch: AnyBatch, step: int, spread: dict[str, float] | None = None, drops: int = 0) -> float:
        """Take the step with this number; gives the loss, and fills `spread` with that of each table's gradients.
        `drops`: of the learning rate so far, with the schedule plateau."""
        if resets_moments(self.settings, step):
            self.entities.reset()
            self.relations.reset()
        value, gradients = self._gradients(batch, step)
        if not math.isfinite(value):
            raise diverged(self.settings, step, value)
        if spread is not None:
            spread |= {"entities": float(gradients.entities.std()), "relations": float(gradients.relations.std())}
        rate = learning_rate(self.settings, step, drops)
        self.entities.push(gradients.entity_ids, gradients.entities, rate)
        self.relations.push(gradients.relation_ids, gradients.relations, rate * self.settings.relation_rate)
        if self.settings.averaging and (step + 1) % AVERAGE_EVERY == 0:
            self.entities.follow(average_share(self.settings, step))
            self.relations.follow(average_share(self.settings, step))
        return value

    @abstractmethod
    def _gradients(self, batch: AnyBatch, step: int) -> tuple[float, Gradients]:
        """The loss of a step, and its gradients."""


@dataclass(frozen=True)
class TrainingStep(Step[Batch]):
    """A step with drawn negatives: only the rows of the batch move. `free`, where given, has a mask (rows,) for
    entities and one for relations: rows where it is False stay as they are."""

    batches: Batches
    free: tuple[Tensor, Tensor] | None = None

    def _gradients(self, batch: Batch, step: int) -> tuple[float, Gradients]:
        rows = self.entities.pull(batch.entity_ids), self.relations.pull(batch.relation_ids)
        loss = self.loss(batch, *rows, step)
        loss.backward()
        gradients = [torch.zeros_like(part) if part.grad is None else part.grad for part in rows]
        ids = [batch.entity_ids, batch.relation_ids]
        penalty = translation_penalty(self.settings, translation_norm(self, self.relations))
        ids[1], gradients[1] = with_translations(self, self.relations, ids[1], gradients[1])
        if self.free is not None:
            for place, free in enumerate(self.free):
                moving = free[ids[place]]
                gradients[place], ids[place] = gradients[place][moving], ids[place][moving]
        value = float(loss.detach()) + penalty
        return value, Gradients(ids[0], gradients[0], ids[1], gradients[1])

    def loss(
        self, batch: Batch, entity_rows: Tensor, relation_rows: Tensor, step: int, shares: Shares = WHOLE
    ) -> Tensor:
        """All that autograd follows: the loss of the scores, and N3."""
        settings = self.settings
        positive, negative = self._scores(batch, entity_rows, relation_rows, step)
        if settings.gradient_share < 1:
            negative = kernels.thin(negative, settings.gradient_share, self.batches.thinning_key(step))
        loss = batch_loss(settings, positive, negative, batch.valid, batch.weights, self.batches.stands_for)
        if shares.weights != 1:
            loss = loss * shares.weights
        if settings.n3:
            loss = loss + settings.n3 * shares.positives * self._cubes(batch, entity_rows, relation_rows)
        return loss

    def _scores(self, batch: Batch, entity_rows: Tensor, relation_rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        keep = None
        if self.settings.dropout:
            keep = self.batches.dropout_mask(step, len(batch.anchors), self.model.entity_width).to(entity_rows.device)
        scores = [
            self.model.batch_scores(
                entity_rows,
                relation_rows,
                kernels.Positions(batch.anchors[rows], batch.relations[rows], batch.answers[rows], negatives),
                batch.side,
                None if keep is None else keep[rows],
            )
            for rows, negatives in batch.groups
        ]
        if len(scores) == 1:
            return scores[0]
        return torch.cat([positive for positive, _ in scores]), torch.cat([negative for _, negative in scores])

    def _cubes(self, batch: Batch, entity_rows: Tensor, relation_rows: Tensor) -> Tensor:
        """N3: the mean over the batch of ‖h‖³₃ + ‖r‖³₃ + ‖t‖³₃."""
        entity_cubes = self.model.moduli(entity_rows).pow(3).sum(1)
        relation_cubes = self.model.moduli(relation_rows).pow(3).sum(1)
        return (entity_cubes[batch.anchors] + entity_cubes[batch.answers] + relation_cubes[batch.relations]).mean()


def diverged(settings: TrainingSettings, step: int, loss: float) -> Diverged:
    return Diverged(
        f"the loss became {loss} at step {step}: the learning rate is likely too high. The last good weights "
        f"are kept; try training.lr={settings.lr / 10:g}, or a warm-up with training.warmup=1000."
    )


def average_share(settings: TrainingSettings, step: int) -> float:
    """How much of the weights an average takes up after a step."""
    return 1 - math.exp(-AVERAGE_EVERY / (settings.averaging * (step + 1)))


def translation_norm(step: Step[AnyBatch], table: Table) -> Tensor | None:
    """‖B‖_F () of the relations of a table, or of a part of one, where λ‖B‖²_F counts."""
    translation = step.model.translation(table.weight) if step.settings.translation_l2 else None
    return None if translation is None else torch.linalg.vector_norm(translation)


def translation_penalty(settings: TrainingSettings, norm: Tensor | float | None) -> float:
    """λ‖B‖²_F."""
    return 0.0 if norm is None else settings.translation_l2 * float(norm) ** 2


def with_translations(step: Step[AnyBatch], table: Table, ids: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient (V, w) of the relations `ids` (V,) of a table, or of a part of one, with that of λ‖B‖²_F, which is
    of every relation: ids and gradient. It is added where the rows live, so no other rows are pulled."""
    weight = step.settings.translation_l2
    if not weight:
        return ids, gradient
    home = table.weight.device
    everything = torch.zeros_like(table.weight).index_copy_(0, ids.to(home), gradient.to(home))
    translation, slope = step.model.translation(table.weight), step.model.translation(everything)
    if translation is not None and slope is not None:
        slope.add_(translation, alpha=2 * weight)
    return torch.arange(len(everything), device=home), everything
