"""Short paths between two entities, and how often the same kind of path goes with a relation elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transher.deadline import check_deadline
from transher.graph.graph import Graph
from transher.graph.ragged import expand_ranges, ranges_of

_FIRST_STEPS = 300  # from an entity, those to the entities with fewest neighbours: hubs explain nothing
_SECOND_STEPS = 100_000
_KINDS_OF_LENGTH = {1: 20, 2: 25, 3: 12}  # kinds of paths that are counted in full, the most frequent first
_ORIGINS = 200  # entities from which a kind of path is followed to count how often it is right
_JOINED = 50_000  # pairs that such a count may go through at a time
_CAUTION = 5  # pairs added to a rule's count before rules are compared: one hit out of one is no 100 %

Ids = NDArray[np.int64]


class Path(NamedTuple):
    """entities: h, …, t; kinds: one a step. A kind is a relation's id, plus the number of relations where the step goes
    against the arrow."""

    entities: tuple[int, ...]
    kinds: tuple[int, ...]


class PathRule(NamedTuple):
    """Paths of one kind from h to t, and the rule that they are an instance of: where such a path leads from a to b,
    the relation holds for (a, b) in `support` of `pairs` cases, the asked one left out."""

    examples: list[Path]
    paths: int  # such paths between h and t
    support: int
    pairs: int
    sampled: bool  # whether the pairs were too many to count all

    @property
    def confidence(self) -> float:
        return self.support / self.pairs if self.pairs else 0.0

    @property
    def strength(self) -> float:
        """Confidence with a malus for few cases, to order rules by."""
        return self.support / (self.pairs + _CAUTION)


class Neighbourhood:
    """A graph's triples (all splits) as steps that can be walked either way, by entity and by relation."""

    def __init__(self, graph: Graph) -> None:
        self.entity_count, self.relation_count = len(graph.entities), len(graph.relations)
        triples = np.unique(graph.all_triples, axis=0).astype(np.int64)
        heads, relations, tails = triples.T
        sources, targets = np.concatenate([heads, tails]), np.concatenate([tails, heads])
        kinds = np.concatenate([relations, relations + self.relation_count])
        order = np.argsort(sources, kind="stable")
        self._targets, self._kinds = targets[order], kinds[order]
        self._starts = np.searchsorted(sources[order], np.arange(self.entity_count + 1))
        order = np.lexsort((targets, sources, kinds))
        self._sources_by_kind, self._targets_by_kind = sources[order], targets[order]
        self._kind_starts = np.searchsorted(kinds[order], np.arange(2 * self.relation_count + 1))

    def steps(self, entity: int) -> tuple[Ids, Ids]:
        """Kinds and targets (d,) of all steps from an entity."""
        part = slice(self._starts[entity], self._starts[entity + 1])
        return self._kinds[part], self._targets[part]

    def edges(self, kind: int) -> tuple[Ids, Ids]:
        """Sources, ascending, and targets (n,) of all steps of a kind."""
        part = slice(self._kind_starts[kind], self._kind_starts[kind + 1])
        return self._sources_by_kind[part], self._targets_by_kind[part]

    def answers(self, anchor: int, kind: int) -> Ids:
        """Where steps of a kind lead from an entity."""
        sources, targets = self.edges(kind)
        return targets[np.searchsorted(sources, anchor) : np.searchsorted(sources, anchor, side="right")]

    def turned(self, kinds: Ids) -> Ids:
        """The kinds of the same steps walked the other way."""
        return (kinds + self.relation_count) % (2 * self.relation_count)

    def rules(self, head: int, relation: int, tail: int) -> list[PathRule]:
        """Every kind of path of one to three steps from head to tail, the asked triple itself left out, the strongest
        rules first. Bounded: of paths over hubs and of rare kinds some are not looked at."""
        found = []
        for entities, kinds in self._paths(head, relation, tail):
            length = kinds.shape[1]
            distinct, kind_of, counts = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
            for place in np.argsort(-counts, kind="stable")[: _KINDS_OF_LENGTH[length]].tolist():
                check_deadline()
                examples = [
                    Path((head, *entities[row].tolist(), tail), tuple(distinct[place].tolist()))
                    for row in np.flatnonzero(kind_of.reshape(-1) == place)[:3].tolist()
                ]
                support, pairs, sampled = self._count(examples[0].kinds, head, relation, tail)
                found.append(PathRule(examples, int(counts[place]), support, pairs, sampled))
        found.sort(key=lambda rule: (-rule.strength, len(rule.examples[0].kinds), -rule.paths))
        return self._without_echoes(found)

    def _without_echoes(self, rules: list[PathRule]) -> list[PathRule]:
        """Where a relation is symmetric, a path is there in every direction and says the same each time: one stays."""
        kept: dict[tuple[object, ...], PathRule] = {}
        for rule in rules:
            relations = tuple(sorted(kind % self.relation_count for kind in rule.examples[0].kinds))
            kept.setdefault((relations, rule.support, rule.pairs), rule)
        return list(kept.values())

    def _paths(self, head: int, relation: int, tail: int) -> list[tuple[Ids, Ids]]:
        """For each length that there is: entities between head and tail (n, length − 1) and kinds (n, length)."""
        kinds, targets = self.steps(head)
        asked = (kinds == relation) & (targets == tail)
        direct = kinds[(targets == tail) & ~asked]
        between = (targets != tail) & (targets != head)
        kinds, targets = kinds[between], targets[between]
        last_kinds, last_sources = self.steps(tail)
        order = np.argsort(last_sources, kind="stable")
        last_kinds, last_sources = self.turned(last_kinds[order]), last_sources[order]
        found = [(np.empty((len(direct), 0), dtype=np.int64), direct[:, None])]

        starts, counts = ranges_of(last_sources, targets)
        _, places = expand_ranges(starts, counts)
        found.append(
            (np.repeat(targets, counts)[:, None], np.stack([np.repeat(kinds, counts), last_kinds[places]], axis=1))
        )

        degrees = self._starts[targets + 1] - self._starts[targets]
        chosen = np.argsort(degrees, kind="stable")[:_FIRST_STEPS]
        chosen = chosen[np.cumsum(degrees[chosen]) <= _SECOND_STEPS]
        kinds, targets, degrees = kinds[chosen], targets[chosen], degrees[chosen]
        _, places = expand_ranges(self._starts[targets], degrees)
        first_kinds, first = np.repeat(kinds, degrees), np.repeat(targets, degrees)
        second_kinds, second = self._kinds[places], self._targets[places]
        kept = (second != head) & (second != tail) & np.isin(second, last_sources)
        first_kinds, first, second_kinds, second = (part[kept] for part in (first_kinds, first, second_kinds, second))
        starts, counts = ranges_of(last_sources, second)
        _, places = expand_ranges(starts, counts)
        walked = [np.repeat(part, counts) for part in (first, second, first_kinds, second_kinds)]
        found.append((np.stack(walked[:2], axis=1), np.stack([*walked[2:], last_kinds[places]], axis=1)))
        return [(entities, kinds) for entities, kinds in found if len(kinds)]

    def _count(self, kinds: Sequence[int], head: int, relation: int, tail: int) -> tuple[int, int, bool]:
        """Support and pairs of the rule "a path of these kinds ⇒ the relation", and whether they are of a sample."""
        origins = np.unique(self.edges(kinds[0])[0])
        sampled = len(origins) > _ORIGINS
        if sampled:
            origins = np.sort(np.random.default_rng(0).choice(origins, _ORIGINS, replace=False))
        places = origins
        for kind in kinds:
            sources, targets = self.edges(kind)
            starts, counts = ranges_of(sources, places)
            fitting = np.cumsum(counts) <= _JOINED
            sampled |= not fitting.all()
            _, positions = expand_ranges(starts[fitting], counts[fitting])
            keys = np.unique(np.repeat(origins[fitting], counts[fitting]) * self.entity_count + targets[positions])
            origins, places = keys // self.entity_count, keys % self.entity_count
        counted = (origins != places) & ~((origins == head) & (places == tail))
        reached = origins[counted] * self.entity_count + places[counted]
        sources, targets = self.edges(relation)
        return int(np.isin(reached, sources * self.entity_count + targets).sum()), len(reached), bool(sampled)
