"""What one worker holds of a graph: the triples whose anchor is in its parts, once by head and once by tail.

A tail query lives with its head and a head query with its tail. So anchors and known answers are at hand, and the known
answers in the worker's own range of ids, which ranking wants, are those of the other side's triples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from transher.graph.graph import SIDES, Candidates, Graph, Side, Split, Triples
from transher.graph.known import KnownAnswers
from transher.graph.prepared import held_out, is_prepared, read_prepared, triples_in
from transher.graph.storage import load_graph_folder
from transher.training.held import Held, Ranges, needs_ranges, triple_ranges, triple_weights
from transher.training.parts import Layout, bounds
from transher.training.settings import TrainingSettings
from transher.workers import Workers

_ASKED = 1 << 20  # triples whose counts are asked for at a time


@dataclass(frozen=True)
class OwnPart:
    """One part of a graph, as batches see it."""

    name: str
    entity_count: int
    relation_count: int
    triple_count: int
    entity_types: NDArray[np.int32] | None
    part: int
    held: dict[Side, Held]


@dataclass(frozen=True)
class GraphShard:
    """The parts `own` of a graph that is cut into `parts`. `by_anchor`: for each side that is asked for the triples
    (n, 3), sorted by anchor, relation and answer, with their `weights` (n,)."""

    name: str
    entity_count: int
    relation_count: int
    triple_count: int
    parts: int
    own: range
    by_anchor: dict[Side, Triples]
    weights: dict[Side, NDArray[np.float32]]
    valid: Triples
    test: Triples
    candidates: dict[Split, Candidates]
    entity_types: NDArray[np.int32] | None = None

    def part_of(self, number: int, settings: TrainingSettings) -> OwnPart:
        """One of the worker's parts."""
        first, last = bounds(self.entity_count, self.parts)[number : number + 2]
        held = {}
        for side in SIDES:
            triples = self.by_anchor[side]
            anchors = triples[:, 0 if side == "tail" else 2]
            rows = slice(*(int(place) for place in np.searchsorted(anchors, (first, last))))
            known, ranges = (self.trained[side], self.ranges[side]) if needs_ranges(settings) else (None, None)
            own = None if ranges is None else (ranges[0][rows], ranges[1][rows])
            held[side] = Held(triples[rows], self.weights[side][rows], known, own)
        sizes = self.entity_count, self.relation_count, self.triple_count
        return OwnPart(self.name, *sizes, self.entity_types, number, held)

    @cached_property
    def trained(self) -> dict[Side, KnownAnswers]:
        """The known answers of the queries that live here."""
        return {side: KnownAnswers(self.by_anchor[side], *self._sizes, side) for side in SIDES}

    @cached_property
    def ranges(self) -> dict[Side, Ranges]:
        """Where the known answers of each triple's query lie."""
        return {
            side: self.trained[side].ranges(self.by_anchor[side][:, 0 if side == "tail" else 2], triples[:, 1])
            for side, triples in self.by_anchor.items()
        }

    @property
    def known(self) -> GraphShard:
        """The known answers, for ranking."""
        return self

    def split(self, name: Split) -> Triples:
        """The triples of valid or test, which every worker has."""
        return self.valid if name == "valid" else self.test

    def answers(self, side: Side) -> KnownAnswers:
        """The known answers to any query, as far as they are in the worker's range of ids: in any split. For ranking,
        as `KnownTriples` has all."""
        return self._known[side]

    @cached_property
    def _known(self) -> dict[Side, KnownAnswers]:
        asked_for: tuple[tuple[Side, Side], ...] = (("tail", "head"), ("head", "tail"))
        return {
            side: KnownAnswers(np.concatenate([self.by_anchor[other], self.valid, self.test]), *self._sizes, side)
            for side, other in asked_for  # the triples whose answer is here are those that the other side asks from
        }

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.entity_count, self.relation_count


def read_shard(folder: Path, settings: TrainingSettings, workers: Workers) -> GraphShard:
    """This worker's shard of the graph in a folder: of a prepared one, no more than that is read."""
    own = Layout(settings.parts, workers.count).of(workers.index)
    if not is_prepared(folder):
        return shard_of(load_graph_folder(folder), settings, own)
    said = read_prepared(folder)
    starts = bounds(said.entities, settings.parts)
    first, last = starts[own.start], starts[own.stop]
    held: dict[Side, Triples] = {
        "tail": triples_in(folder, "by_head", first, last),
        "head": triples_in(folder, "by_tail", first, last),
    }
    valid, test = held_out(folder)
    sizes = said.entities, said.relations, said.train
    nothing: dict[Side, NDArray[np.float32]] = {}
    shard = GraphShard(said.name, *sizes, settings.parts, own, held, nothing, valid, test, {})
    owners = [starts[Layout(settings.parts, workers.count).of(worker).start] for worker in range(workers.count)]
    for side in SIDES:
        nothing[side] = _weights(shard, side, settings, owners, workers)
    return shard


def _weights(
    shard: GraphShard, side: Side, settings: TrainingSettings, owners: list[int], workers: Workers
) -> NDArray[np.float32]:
    """The weights (n,) of the triples that a side asks from here, as `triple_weights` has them."""
    triples, offset = shard.by_anchor[side], settings.count_offset
    if settings.weighting == "none":
        return np.ones(len(triples), dtype=np.float32)
    starts, ends = shard.ranges[side]
    counts = (ends - starts).astype(np.int64) + offset
    if settings.weighting == "frequency":
        counts += _counts_elsewhere(shard, side, owners, workers) + offset
    return (1 / np.sqrt(counts)).astype(np.float32)


def _counts_elsewhere(shard: GraphShard, side: Side, owners: list[int], workers: Workers) -> NDArray[np.int64]:
    """For each triple that a side asks from here, how many share its relation and its answer (n,). Whoever has the
    answer has counted them; some triples at a time, as often as the worker with most of them needs."""
    other: Side = "head" if side == "tail" else "tail"
    triples = shard.by_anchor[side]
    answers, relations = triples[:, 2 if side == "tail" else 0].astype(np.int64), triples[:, 1]
    rounds = int(workers.gather(torch.tensor([float(len(triples))])).max()) // _ASKED + 1
    found = np.empty(len(triples), dtype=np.int64)
    for part in (slice(number * _ASKED, (number + 1) * _ASKED) for number in range(rounds)):
        order = np.argsort(answers[part], kind="stable")
        keys = (answers[part] * shard.relation_count + relations[part])[order]
        cuts = np.searchsorted(answers[part][order], owners[1:])
        asked = [torch.from_numpy(keys) for keys in np.split(keys, cuts)]
        numbers = workers.gather(torch.tensor([float(len(keys)) for keys in asked])).long()
        came = workers.exchange(asked, numbers[:, workers.index].tolist())
        known = [np.divmod(keys.numpy(), shard.relation_count) for keys in came]
        told = [torch.from_numpy(shard.trained[other].counts(*pair)) for pair in known]
        counts = torch.cat(workers.exchange(told, [len(keys) for keys in asked])).numpy()
        found[np.arange(len(triples))[part][order]] = counts
    return found


def shard_of(graph: Graph, settings: TrainingSettings, own: range) -> GraphShard:
    """A worker's shard of a graph that it has read as a whole."""
    ranges = {side: triple_ranges(graph, side) for side in SIDES} if settings.weighting != "none" else {}
    weights = triple_weights(graph, settings, ranges)
    starts = bounds(len(graph.entities), settings.parts)
    held: dict[Side, Triples] = {}
    weighed: dict[Side, NDArray[np.float32]] = {}
    for side in SIDES:
        anchor, answer = (0, 2) if side == "tail" else (2, 0)
        anchors = graph.train[:, anchor]
        mine = np.flatnonzero((anchors >= starts[own.start]) & (anchors < starts[own.stop]))
        triples = graph.train[mine]
        order = np.lexsort((triples[:, answer], triples[:, 1], triples[:, anchor]))
        held[side], weighed[side] = triples[order], weights[side][mine[order]]
    return GraphShard(
        name=graph.name,
        entity_count=len(graph.entities),
        relation_count=len(graph.relations),
        triple_count=len(graph.train),
        parts=settings.parts,
        own=own,
        by_anchor=held,
        weights=weighed,
        valid=graph.valid,
        test=graph.test,
        candidates=graph.candidates,
        entity_types=graph.entity_types,
    )
