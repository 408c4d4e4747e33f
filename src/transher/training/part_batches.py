"""The batches of a step, one for each part that this worker has, and the rows that they need of either table."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.training.batches import Batch, Batches, BatchSource, Needs
from transher.training.device_batches import source_on
from transher.training.parts import TreeSum
from transher.training.settings import TrainingSettings
from transher.training.shard import GraphShard
from transher.training.sharded_table import Request, ShardedTables, Wanted
from transher.training.step import Shares

_TOGETHER = 8  # steps whose ids travel together


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


@dataclass(frozen=True)
class _Own:
    """What this worker knows by itself of a step: the batches of its parts and what they need, the sums of their
    gradients, entities and relations, and what it wants for them; the weight of each part's positives, and their number
    (most parts, 2). All that is told to others is on the CPU."""

    step: int
    batches: list[Batch]
    needs: list[Needs]
    sums: tuple[TreeSum, TreeSum]
    wanted: list[Wanted]
    totals: NDArray[np.float64]


def part_sources(
    shard: GraphShard, settings: TrainingSettings, reciprocal: bool, device: torch.device
) -> list[Batches]:
    """Of each part of a worker, what makes its batches, on the device that computes."""
    source = source_on(device)
    return [source(shard.part_of(part, settings), settings, reciprocal, device) for part in shard.own]


class PartBatches(BatchSource[PartBatch]):
    """A source for each part. Workers exchange the ids of several steps when the batch of the first is made, which is
    while the step before computes."""

    def __init__(
        self,
        parts: list[Batches],
        triple_count: int,
        settings: TrainingSettings,
        reciprocal: bool,
        tables: ShardedTables,
    ) -> None:
        super().__init__(settings, reciprocal)
        self.parts, self.layout = parts, tables.layout
        self.steps_per_epoch = 2 * -(-triple_count // settings.batch)
        self._tables = tables
        self._asked: deque[tuple[_Own, list[Wanted], NDArray[np.float64]]] = deque()  # with what all asked and told
        self._following: list[_Own] = []

    def make(self, step: int) -> PartBatch:
        if not self._asked or self._asked[0][0].step != step:
            self._ask(step)
        present, asked, told = self._asked.popleft()
        # One at a time, so that no step waits for all that are asked for together.
        self._following.append(self._own_of(step + len(self._asked) + len(self._following) + 1))
        requests = self._tables.requests(present.wanted, asked)
        # In the order of the parts, so that the sum is the same on any number of workers.
        weight, count = (sum(column) for column in zip(*told.reshape(-1, 2).tolist(), strict=True))
        shares = [
            Shares(own / weight if weight else 0.0, batch.triples / count)
            for own, batch in zip(present.totals[::2].tolist(), present.batches, strict=False)
        ]
        ids = [needs.entity_ids for needs in present.needs], [needs.relation_ids for needs in present.needs]
        entities, relations = map(self._rows, requests, present.sums, ids)
        return PartBatch(int(count), present.batches, shares, entities, relations)

    def _ask(self, step: int) -> None:
        """Exchange the ids of some steps, of which this is the first."""
        own = self._following if self._following and self._following[0].step == step else []
        own += [self._own_of(later) for later in range(step + len(own), step + _TOGETHER)]
        asked, told = self._tables.ask([one.wanted for one in own], np.stack([one.totals for one in own]))
        self._asked, self._following = deque(zip(own, asked, told, strict=True)), []

    def _own_of(self, step: int) -> _Own:
        made = [part.with_needs(step) for part in self.parts]
        batches, needs = [batch for batch, _ in made], [needs for _, needs in made]
        entities, relations = self._tables.tables
        sums = (
            self._sums([part.entity_ids for part in needs], entities.rows),
            self._sums([part.relation_ids for part in needs], relations.rows),
        )
        totals = np.zeros((self.layout.most, 2))
        for place, (batch, part) in enumerate(made):
            totals[place] = float(part.weight), batch.triples
        wanted = [entities.wanted(sums[0].ids), relations.wanted(sums[1].ids)]
        return _Own(step, batches, needs, sums, wanted, totals.reshape(-1))

    @property
    def _parts(self) -> range:
        return self.layout.of(self._tables.workers.index)

    def _sums(self, ids: list[Tensor], bound: int) -> TreeSum:
        nodes = [(0, part) for part in self._parts]
        return TreeSum(self.layout.parts, nodes, ids, bound, self._tables.device)

    def _rows(self, request: Request, total: TreeSum, ids: list[Tensor]) -> Rows:
        places: list[tuple[int, Tensor | None]] = []
        for part, rows in zip(self._parts, ids, strict=True):
            node = next(n for n, (level, place) in enumerate(total.nodes) if part >> level == place)
            alone = len(total.ids[node]) == len(rows)
            found = None if alone else torch.searchsorted(total.ids[node], rows).to(self._tables.device)
            places.append((node, found))
        return Rows(request, total, places)
