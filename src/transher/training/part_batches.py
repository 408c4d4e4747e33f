"""The batches of a step, one for each part that this worker has, and the rows that they need of either table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transher.training.batches import Batch, Batches, BatchSource
from transher.training.parts import Layout, TreeSum
from transher.training.settings import TrainingSettings
from transher.training.shard import GraphShard
from transher.training.sharded_table import Request, ShardedTable
from transher.training.step import Shares
from transher.workers import Workers


@dataclass(frozen=True)
class Rows:
    """Of one table: what is requested, how the parts' gradients add up to those of the worker's nodes, and for each
    part in which node its rows are, and where (None: they are all of them)."""

    request: Request
    gradients: TreeSum
    places: list[tuple[int, Tensor | None]]


@dataclass(frozen=True)
class PartBatch:
    """The batches of this worker's parts in a step, with what each is of the whole; `triples` are those of all."""

    triples: int
    batches: list[Batch]
    shares: list[Shares]
    entities: Rows
    relations: Rows


class PartBatches(BatchSource[PartBatch]):
    """A source for each part. Workers exchange ids when a batch is made, which is while the step before computes."""

    def __init__(
        self,
        shard: GraphShard,
        settings: TrainingSettings,
        reciprocal: bool,
        tables: tuple[ShardedTable, ShardedTable],
        workers: Workers,
    ) -> None:
        super().__init__(settings, reciprocal)
        self.layout = Layout(settings.parts, workers.count)
        self.parts = [Batches(shard.part_of(number, settings), settings, reciprocal) for number in shard.own]
        self._tables, self._workers = tables, workers
        self.steps_per_epoch = 2 * -(-shard.triple_count // settings.batch)

    def make(self, step: int) -> PartBatch:
        batches = [part.make(step) for part in self.parts]
        totals = torch.zeros(2 * max(len(self.layout.of(worker)) for worker in range(self.layout.workers)))
        totals = totals.double()
        for place, batch in enumerate(batches):
            totals[2 * place], totals[2 * place + 1] = batch.weights.double().sum(), batch.triples
        # In the order of the parts, so that the sum is the same on any number of workers.
        weights, counts = (
            [value for row in column.tolist() for value in row]
            for column in self._workers.gather(totals, ahead=True).view(self._workers.count, -1, 2).unbind(2)
        )
        weight, count = sum(weights), sum(counts)
        shares = [
            Shares(own / weight if weight else 0.0, batch.triples / count)
            for own, batch in zip(totals[::2].tolist(), batches, strict=False)
        ]
        entities, relations = self._tables
        return PartBatch(
            int(count),
            batches,
            shares,
            self._rows(entities, [batch.entity_ids for batch in batches]),
            self._rows(relations, [batch.relation_ids for batch in batches]),
        )

    def _rows(self, table: ShardedTable, ids: list[Tensor]) -> Rows:
        own = self.layout.of(self._workers.index)
        total = TreeSum(self.layout.parts, [(0, part) for part in own], ids, table.rows)
        places: list[tuple[int, Tensor | None]] = []
        for part, rows in zip(own, ids, strict=True):
            node = next(n for n, (level, place) in enumerate(total.nodes) if part >> level == place)
            alone = len(total.ids[node]) == len(rows)
            places.append((node, None if alone else torch.searchsorted(total.ids[node], rows)))
        return Rows(table.request(total.ids), total, places)
