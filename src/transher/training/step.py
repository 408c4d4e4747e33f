"""One training step: pull the rows of a batch, score, take the loss and its gradient, push the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transher import kernels
from transher.errors import Diverged
from transher.models.model import Model
from transher.training.batches import Batch, Batches
from transher.training.loss import batch_loss
from transher.training.schedule import learning_rate, resets_moments
from transher.training.settings import TrainingSettings
from transher.training.table import Table

_AVERAGE_EVERY = 16  # steps: an average passes over whole tables


@dataclass(frozen=True)
class TrainingStep:
    """Gradient descent on two tables. `free`, where given, has a mask (rows,) for entities and one for relations: rows
    where it is False stay as they are."""

    model: Model
    settings: TrainingSettings
    batches: Batches
    entities: Table
    relations: Table
    free: tuple[Tensor, Tensor] | None = None

    def __call__(self, batch: Batch, step: int, spread: dict[str, float] | None = None, drops: int = 0) -> float:
        """Take the step with this number; gives the loss, and fills `spread` with that of each table's gradients.
        `drops`: of the learning rate so far, with the schedule plateau."""
        if resets_moments(self.settings, step):
            self.entities.reset()
            self.relations.reset()
        rows = self.entities.pull(batch.entity_ids), self.relations.pull(batch.relation_ids)
        loss = self._loss(batch, *rows, step)
        value = float(loss.detach()) + self._translation_penalty(rows[1])
        if not math.isfinite(value):
            raise Diverged(
                f"the loss became {value} at step {step}: the learning rate is likely too high. The last good weights "
                f"are kept; try training.lr={self.settings.lr / 10:g}, or a warm-up with training.warmup=1000."
            )
        loss.backward()
        self._pull_translations(rows[1])
        if spread is not None:
            named = zip(("entities", "relations"), rows, strict=True)
            spread |= {name: float(part.grad.std()) for name, part in named if part.grad is not None}
        self._push(batch, rows, learning_rate(self.settings, step, drops))
        if self.settings.averaging and (step + 1) % _AVERAGE_EVERY == 0:
            share = 1 - math.exp(-_AVERAGE_EVERY / (self.settings.averaging * (step + 1)))
            self.entities.follow(share)
            self.relations.follow(share)
        return value

    def _loss(self, batch: Batch, entity_rows: Tensor, relation_rows: Tensor, step: int) -> Tensor:
        """All that autograd follows: the loss of the scores, and N3."""
        settings = self.settings
        positive, negative = self._scores(batch, entity_rows, relation_rows, step)
        if settings.gradient_share < 1:
            negative = kernels.thin(negative, settings.gradient_share, self.batches.thinning_key(step))
        loss = batch_loss(settings, positive, negative, batch.valid, batch.weights, self.batches.stands_for)
        return loss + settings.n3 * self._cubes(batch, entity_rows, relation_rows) if settings.n3 else loss

    def _scores(self, batch: Batch, entity_rows: Tensor, relation_rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        keep = None
        if self.settings.dropout:
            keep = self.batches.dropout_mask(step, len(batch.anchors), self.model.entity_width)
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

    def _translation_penalty(self, relation_rows: Tensor) -> float:
        """λ‖B‖²_F over every relation."""
        weight, translation = self.settings.translation_l2, self.model.translation(relation_rows.detach())
        return 0.0 if not weight or translation is None else weight * float(torch.linalg.vector_norm(translation)) ** 2

    def _pull_translations(self, relation_rows: Tensor) -> None:
        """Adds 2λB to the gradient of B: autograd would first fill a gradient of the whole rows with zeros."""
        weight, translation = self.settings.translation_l2, self.model.translation(relation_rows.detach())
        if weight and translation is not None and relation_rows.grad is not None:
            gradient = self.model.translation(relation_rows.grad)
            assert gradient is not None
            gradient.add_(translation, alpha=2 * weight)

    @torch.no_grad()
    def _push(self, batch: Batch, rows: Sequence[Tensor], rate: float) -> None:
        """Give each table the gradients of its rows, at its learning rate; those of free rows alone, where some are."""
        rates = rate, rate * self.settings.relation_rate
        ids = batch.entity_ids, batch.relation_ids
        for place, table in enumerate((self.entities, self.relations)):
            gradient, own = rows[place].grad, ids[place]
            if gradient is None:
                continue
            if self.free is not None:
                moving = self.free[place][own]
                gradient, own = gradient[moving], own[moving]
            table.push(own, gradient, rates[place])
