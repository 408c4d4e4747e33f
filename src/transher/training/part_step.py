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
from transher.training.sharded_table import ShardedTable
from transher.training.step import AVERAGE_EVERY, TrainingStep, average_share, diverged, with_translations
from transher.workers import Workers


@dataclass
class PartStep:
    """As `Step`, on sharded tables. `wishes` is asked in each step for what this worker wants all to know, two truth
    values; `wished` has then what any of them wanted."""

    model: Model
    settings: TrainingSettings
    batches: PartBatches
    entities: ShardedTable
    relations: ShardedTable
    workers: Workers
    wishes: Callable[[], tuple[bool, bool]] = lambda: (False, False)
    wished: tuple[bool, bool] = (False, False)
    _alone: list[TrainingStep] = field(default_factory=list)  # the step of each part, for its loss

    def __post_init__(self) -> None:
        own = zip(self.batches.parts, self.entities.parts, self.relations.parts, strict=True)
        self._alone = [TrainingStep(self.model, self.settings, *part) for part in own]

    def __call__(self, batch: PartBatch, step: int, spread: dict[str, float] | None = None, drops: int = 0) -> float:
        """Take the step with this number; gives the loss of all parts."""
        if resets_moments(self.settings, step):
            for table in (*self.entities.parts, *self.relations.parts):
                table.reset()
        losses, gradients = self._gradients(batch, step)
        relations = self.relations.collect(batch.relations.request, batch.relations.gradients(gradients[1]))
        pulled = [
            with_translations(alone, table, *moving)
            for alone, table, moving in zip(self._alone, self.relations.parts, relations, strict=True)
        ]
        heard = self._together(losses, [penalty for *_, penalty in pulled])
        entities = self.entities.collect(batch.entities.request, batch.entities.gradients(gradients[0]))
        value = heard()
        if not math.isfinite(value):
            raise diverged(self.settings, step, value)
        rate = learning_rate(self.settings, step, drops)
        for table, (ids, gradient) in zip(self.entities.parts, entities, strict=True):
            table.push(ids, gradient, rate)
        for table, (ids, gradient, _) in zip(self.relations.parts, pulled, strict=True):
            table.push(ids, gradient, rate * self.settings.relation_rate)
        if self.settings.averaging and (step + 1) % AVERAGE_EVERY == 0:
            for table in (*self.entities.parts, *self.relations.parts):
                table.follow(average_share(self.settings, step))
        return value

    def _gradients(self, batch: PartBatch, step: int) -> tuple[list[float], tuple[list[Tensor], list[Tensor]]]:
        """The loss of each part, and the gradients of its rows of either table."""
        nodes = self.entities.pull(batch.entities.request), self.relations.pull(batch.relations.request)
        losses: list[float] = []
        gradients: tuple[list[Tensor], list[Tensor]] = [], []
        for number, (alone, own) in enumerate(zip(self._alone, batch.batches, strict=True)):
            rows = [
                _rows_of(part, number, found)
                for part, found in zip((batch.entities, batch.relations), nodes, strict=True)
            ]
            if own.triples:
                loss = alone.loss(own, rows[0], rows[1], step, batch.shares[number])
                loss.backward()
            losses.append(float(loss.detach()) if own.triples else 0.0)
            for found, part in zip(gradients, rows, strict=True):
                found.append(torch.zeros_like(part) if part.grad is None else part.grad)
        return losses, gradients

    def _together(self, losses: list[float], penalties: list[float]) -> Callable[[], float]:
        """The loss of all parts, once the others have told theirs, and what any worker wishes. Parts are added in their
        order, so that the loss is the same on any number of workers."""
        layout = self.batches.layout
        most = max(len(layout.of(worker)) for worker in range(layout.workers))
        told = torch.zeros(2 + 2 * most, dtype=torch.float64)
        told[:2] = torch.tensor(self.wishes())
        told[2 : 2 + len(losses)] = torch.tensor(losses, dtype=torch.float64)
        told[2 + most : 2 + most + len(penalties)] = torch.tensor(penalties, dtype=torch.float64)
        pending = self.workers.gather_later(told)

        def heard() -> float:
            everything = pending()
            stop, save = (everything[:, :2] > 0).any(0).tolist()
            self.wished = stop, save
            loss, penalty = (sum(part.reshape(-1).tolist()) for part in everything[:, 2:].split(most, 1))
            return float(loss + penalty)

        return heard


def _rows_of(rows: Rows, part: int, nodes: list[Tensor]) -> Tensor:
    """The rows of a part, out of those of the nodes, ready to collect a gradient."""
    node, places = rows.places[part]
    found = nodes[node].detach() if places is None else kernels.gather_rows(nodes[node], places)
    return found.requires_grad_()
