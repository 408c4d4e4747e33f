"""Batches for a softmax over all entities: distinct queries, each with all of its training answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.graph.graph import SIDES, Graph, Side
from transher.graph.ragged import expand_ranges
from transher.models.embeddings import asked_as
from transher.training.batches import CPU, ORDER, BatchSource, refuse_empty
from transher.training.held import triple_ranges, triple_weights
from transher.training.settings import TrainingSettings


@dataclass(frozen=True)
class QueryBatch:
    """B distinct queries with T answers. The first `tail_count` queries are asked for tails, the others for heads; with
    reciprocal relations, all are asked for tails."""

    anchors: Tensor  # int64 (B,), ids of entities
    relations: Tensor  # int64 (B,), rows of the relation table
    tail_count: int
    offsets: Tensor  # int64 (B + 1,): the answers of query b are answers[offsets[b] : offsets[b + 1]]
    answers: Tensor  # int64 (T,), ids of entities
    weights: Tensor  # float32 (T,), which add up to about 1

    @property
    def triples(self) -> int:
        return len(self.answers)


class QueryBatches(BatchSource[QueryBatch]):
    """Batches of queries of both sides; all queries are seen before any repeats.

    A batch has `settings.batch` answers on average: a query is never cut, and batches have as many queries as each
    other. Weights are divided by their sum in an average batch, not in the batch at hand, so that each triple counts
    the same whatever batch it is in.
    """

    def __init__(self, graph: Graph, settings: TrainingSettings, reciprocal: bool, device: torch.device = CPU) -> None:
        super().__init__(settings, reciprocal, device)
        refuse_empty(graph.name, len(graph.train))
        self.graph = graph
        parts = [self._of_side(side) for side in ("tail", "head")]
        self._anchors, self._relations, self._counts, self._answers, self._weights = (
            np.concatenate(columns) for columns in zip(*parts, strict=True)
        )
        self._starts = np.cumsum(self._counts) - self._counts
        self._tail_count = len(self._anchors) if reciprocal else len(parts[0][0])
        self.steps_per_epoch = min(len(self._anchors), -(-2 * len(graph.train) // settings.batch))
        self._weights *= np.float32(self.steps_per_epoch / self._weights.sum(dtype=np.float64))
        self._order: tuple[int, NDArray[np.int64]] | None = None

    def _of_side(self, side: Side) -> tuple[NDArray[np.integer], ...]:
        """Anchors, rows of relations and numbers of answers of every query; answers, and their weights."""
        known, train = self.graph.trained.answers(side), self.graph.train
        anchors, relations, counts = known.queries()
        rows, _ = asked_as(torch.from_numpy(relations), side, len(self.graph.relations), self.reciprocal)
        ranged = self.settings.weighting != "none"
        ranges = {each: triple_ranges(self.graph, each) for each in SIDES} if ranged else {}
        weights = triple_weights(self.graph, self.settings, ranges)[side]
        anchor, answer = (0, 2) if side == "tail" else (2, 0)
        places = known.places(train[:, anchor], train[:, 1], train[:, answer])
        # A triple that stands twice weighs twice.
        summed = np.bincount(places, weights, len(known)).astype(np.float32)
        return anchors.astype(np.int32), rows.numpy().astype(np.int32), counts, known.answers, summed  # type: ignore[return-value]

    def make(self, step: int) -> QueryBatch:
        chosen = self._chosen(step)
        # Queries of one side, and then of one relation, follow each other.
        chosen = chosen[np.lexsort((self._relations[chosen], chosen >= self._tail_count))]
        offsets, places = expand_ranges(self._starts[chosen], self._counts[chosen])
        return QueryBatch(
            anchors=_ids(self._anchors[chosen]),
            relations=_ids(self._relations[chosen]),
            tail_count=int((chosen < self._tail_count).sum()),
            offsets=_ids(offsets),
            answers=_ids(self._answers[places]),
            weights=torch.from_numpy(self._weights[places]),
        )

    def _chosen(self, step: int) -> NDArray[np.int64]:
        """The queries of a step."""
        epoch, within = divmod(step, self.steps_per_epoch)
        total = len(self._anchors)
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, self._generator(ORDER, epoch).permutation(total)
        first, last = (place * total // self.steps_per_epoch for place in (within, within + 1))
        return self._order[1][first:last]


def _ids(ids: NDArray[np.integer]) -> Tensor:
    return torch.from_numpy(ids.astype(np.int64))
