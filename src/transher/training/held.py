"""What is asked for in a training: for each side the triples, the known answers of their queries, and weights.

A part of a training holds those triples whose anchor is in the part's range of ids, so its anchors and all known
answers of its queries are at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from transher.graph.graph import SIDES, Graph, Side, Triples
from transher.graph.known import KnownAnswers
from transher.training.settings import TrainingSettings

Ranges = tuple[NDArray[np.integer], NDArray[np.integer]]


def triple_ranges(graph: Graph, side: Side) -> Ranges:
    """Where in the known answers of a side those of each training triple's query start and end: two (triples,)."""
    known = graph.trained.answers(side)
    anchors = graph.train[:, 0 if side == "tail" else 2]
    small = np.int32 if len(known) <= np.iinfo(np.int32).max else np.int64
    starts, ends = known.ranges(anchors, graph.train[:, 1])
    return starts.astype(small), ends.astype(small)


def triple_weights(
    graph: Graph, settings: TrainingSettings, ranges: dict[Side, Ranges]
) -> dict[Side, NDArray[np.float32]]:
    """The weight of every training triple, by the side that is asked for: 1/√c, or 1, times the graph's own weight.

    By frequency, c counts the triples that share the head and the relation, and those that share the relation and
    the tail, and is the same on both sides. By query, c counts the answers of the query that is asked, so that
    queries with many answers weigh less than their number. An offset is added to each count. `ranges`: of both sides,
    where the weights depend on them.
    """
    kind, offset = settings.weighting, settings.count_offset
    given = 1.0 if graph.train_weights is None else graph.train_weights
    if kind == "none":
        weights = (np.ones(len(graph.train), dtype=np.float32) * given).astype(np.float32)
        return dict.fromkeys(SIDES, weights)

    def weigh(counts: NDArray[np.int64]) -> NDArray[np.float32]:
        return (1 / np.sqrt(counts) * given).astype(np.float32)

    both: tuple[Side, Side] = ("tail", "head")
    tails, heads = (np.subtract(*ranges[side][::-1], dtype=np.int64) + offset for side in both)
    if kind == "frequency":  # one array for both sides
        return dict.fromkeys(SIDES, weigh(tails + heads))
    return {"tail": weigh(tails), "head": weigh(heads)}


@dataclass(frozen=True)
class Held:
    """To be asked for one side: triples (n, 3) with their weights (n,), and where the known answers of each one's query
    lie, unless no setting needs them: looking them up in every step costs more."""

    triples: Triples
    weights: NDArray[np.float32]
    known: KnownAnswers | None
    ranges: Ranges | None


class Holder(Protocol):
    """A graph as batches see it, all of it or a part: its size, types if it has some, and what is asked for."""

    @property
    def name(self) -> str: ...
    @property
    def entity_count(self) -> int: ...
    @property
    def relation_count(self) -> int: ...
    @property
    def triple_count(self) -> int: ...  # in all parts together
    @property
    def entity_types(self) -> NDArray[np.int32] | None: ...
    @property
    def part(self) -> int: ...
    @property
    def held(self) -> dict[Side, Held]: ...


@dataclass(frozen=True)
class WholeGraph:
    """All triples of a graph, on both sides, in their own order."""

    graph: Graph
    held: dict[Side, Held]
    part: int = 0

    @classmethod
    def of(cls, graph: Graph, settings: TrainingSettings) -> WholeGraph:
        ranged = needs_ranges(settings)
        ranges = {side: triple_ranges(graph, side) for side in SIDES} if ranged else {}
        weights = triple_weights(graph, settings, ranges)
        return cls(
            graph,
            {
                side: Held(graph.train, weights[side], graph.trained.answers(side), ranges[side])
                if ranged
                else Held(graph.train, weights[side], None, None)
                for side in SIDES
            },
        )

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def entity_count(self) -> int:
        return len(self.graph.entities)

    @property
    def relation_count(self) -> int:
        return len(self.graph.relations)

    @property
    def triple_count(self) -> int:
        return len(self.graph.train)

    @property
    def entity_types(self) -> NDArray[np.int32] | None:
        return self.graph.entity_types


def needs_ranges(settings: TrainingSettings) -> bool:
    """Whether a training looks at the known answers of its triples' queries."""
    return settings.filter_known or settings.weighting != "none"
