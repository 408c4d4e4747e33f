"""One training step of many parts: pull the rows of a worker's parts, compute each part by itself, push the sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transher import kernels
from transher.models.model import Model
from transher.training.part_batches import PartBatch, PartBatches, Rows
from transher.training.schedule import learning_rate, resets_moments
from transher.training.settings import TrainingSettings
from transher.training.sharded_table import ShardedTables
from transher.training.step import (
    AVERAGE_EVERY,
    TrainingStep,
    average_share,
    diverged,
    translation_norm,
    translation_penalty,
    with_translations,
)


@dataclass
class PartStep:
    """As `Step`, on sharded tables. `wishes` is asked in each step for what this worker wants all to know, two truth
    values; `wished` has then what any of them wanted."""

    model: Model
    settings: TrainingSettings
    batches: PartBatches
    tables: ShardedTables
    wishes: Callable[[], tuple[bool, bool]] = lambda: (False, False)
    wished: tuple[bool, bool] = (False, False)
    _alone: list[TrainingStep] = field(default_factory=list)  # the step of each part, for its loss

    def __post_init__(self) -> None:
        own = zip(self.batches.parts, *(table.parts for table in self.tables.tables), strict=True)
        self._alone = [TrainingStep(self.model, self.settings, *part) for part in own]

    def __call__(self, batch: PartBatch, step: int, spread: dict[str, float] | None = None, drops: int = 0) -> float:
        """Take the step with this number; gives the loss of all parts."""
        if resets_moments(self.settings, step):
            for table in self.tables.parts:
                table.reset()
        losses, gradients = self._gradients(batch, step)
        both = batch.entities, batch.relations
        sums = [rows.gradients(own) for rows, own in zip(both, gradients, strict=True)]
        (entities, relations), told = self.tables.collect([rows.request for rows in both], sums, self._told(losses))
        value = self._heard(told)
        if not math.isfinite(value):
            raise diverged(self.settings, step, value)
        rate = learning_rate(self.settings, step, drops)
        for alone, moving in zip(self._alone, entities, strict=True):
            alone.entities.push(*moving, rate)
        for alone, moving in zip(self._alone, relations, strict=True):
            pulled = with_translations(alone, alone.relations, *moving)
            alone.relations.push(*pulled, rate * self.settings.relation_rate)
        if self.settings.averaging and (step + 1) % AVERAGE_EVERY == 0:
            for table in self.tables.parts:
                table.follow(average_share(self.settings, step))
        return value

    def _gradients(self, batch: PartBatch, step: int) -> tuple[list[Tensor | None], tuple[list[Tensor], list[Tensor]]]:
        """The loss () of each part that has a triple, and the gradients of its rows of either table. A GPU is not asked
        what it has found: that is told once, to all."""
        nodes = self.tables.pull([batch.entities.request, batch.relations.request])
        losses: list[Tensor | None] = []
        gradients: tuple[list[Tensor], list[Tensor]] = [], []
        for number, (alone, own) in enumerate(zip(self._alone, batch.batches, strict=True)):
            rows = [
                _rows_of(part, number, found)
                for part, found in zip((batch.entities, batch.relations), nodes, strict=True)
            ]
            if own.triples:
                loss = alone.loss(own, rows[0], rows[1], step, batch.shares[number])
                loss.backward()
            losses.append(loss.detach() if own.triples else None)
            for found, part in zip(gradients, rows, strict=True):
                found.append(torch.zeros_like(part) if part.grad is None else part.grad)
        return losses, gradients

    def _told(self, losses: list[Tensor | None]) -> Tensor:
        """What this worker wishes, and the loss and the norm of the translations of each of its parts, as far as any
        worker has some."""
        device = self.tables.device
        nothing = torch.zeros((), device=device)
        norms = [translation_norm(alone, alone.relations) for alone in self._alone]
        found = [value for both in zip(losses, norms, strict=True) for value in both]
        values = [nothing if value is None else value.to(device) for value in found]
        values += [nothing] * (2 * self.batches.layout.most - len(values))
        wishes = torch.tensor(self.wishes(), dtype=torch.float32, device=device)
        return torch.cat([wishes, torch.stack(values)]).float()

    def _heard(self, told: Tensor) -> float:
        """told: (workers, n). The loss of all parts, added in their order, so that it is the same on any number of
        workers; and what any of them wishes."""
        by_worker: list[list[float]] = told.tolist()
        stop, save = (any(numbers[place] > 0 for numbers in by_worker) for place in (0, 1))
        self.wished = stop, save
        losses, norms = ([loss for numbers in by_worker for loss in numbers[place::2]] for place in (2, 3))
        return float(sum(losses) + sum(translation_penalty(self.settings, norm) for norm in norms))


def _rows_of(rows: Rows, part: int, nodes: list[Tensor]) -> Tensor:
    """The rows of a part, out of those of the nodes, ready to collect a gradient."""
    node, places = rows.places[part]
    found = nodes[node].detach() if places is None else kernels.gather_rows(nodes[node], places)
    return found.requires_grad_()
