"""Short paths between two entities, and how often paths over the same ends go with a relation elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transher.deadline import check_deadline
from transher.graph.known import KnownTriples
from transher.graph.ragged import expand_ranges, ranges_of
from transher.kernels.rules import CAUTION

_FIRST_STEPS = 300  # from an entity, those to the entities with fewest neighbours: hubs explain nothing
_SECOND_STEPS = 100_000
_COUNTED = {1: 20, 2: 25, 3: 12}  # by length: how many kinds of paths are counted, the most frequent first
_ORIGINS = 200  # entities from which a kind of path is followed to count how often it is right
_JOINED = 50_000  # pairs that such a count may go through at a time

Ids = NDArray[np.int64]


class Path(NamedTuple):
    """entities: h, …, t; ends: one a step, that at which it starts (see `transher.graph.known`)."""

    entities: tuple[int, ...]
    ends: tuple[int, ...]


class PathRule(NamedTuple):
    """Paths over the same ends from h to t, and the rule that they are an instance of: where such a path leads from a
    to b, the relation holds for (a, b) in `support` of `pairs` cases, the asked one left out."""

    examples: list[Path]
    paths: int  # such paths between h and t
    support: int
    pairs: int
    sampled: bool  # whether the pairs were too many to count all

    @property
    def confidence(self) -> float:
        """As of mined rules: few cases do not make sure."""
        return self.support / (self.pairs + CAUTION)


def path_rules(known: KnownTriples, head: int, relation: int, tail: int) -> list[PathRule]:
    """A rule for the paths of one to three steps from head to tail, the asked triple itself left out, the strongest
    first. Bounded: of paths over hubs and of rare kinds some are not looked at."""
    found = []
    for between, ends in _paths(known, head, relation, tail):
        distinct, kind_of, counts = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
        for kind in np.argsort(-counts, kind="stable")[: _COUNTED[ends.shape[1]]].tolist():
            check_deadline()
            examples = [
                Path((head, *between[row].tolist(), tail), tuple(distinct[kind].tolist()))
                for row in np.flatnonzero(kind_of.reshape(-1) == kind)[:3].tolist()
            ]
            support, pairs, sampled = _count(known, examples[0].ends, head, relation, tail)
            found.append(PathRule(examples, int(counts[kind]), support, pairs, sampled))
    found.sort(key=lambda rule: (-rule.confidence, len(rule.examples[0].ends), -rule.paths))
    # Where a relation is symmetric, a path is there in every direction and says the same each time: one stays.
    kept: dict[tuple[object, ...], PathRule] = {}
    for rule in found:
        relations = tuple(sorted(end % known.relation_count for end in rule.examples[0].ends))
        kept.setdefault((relations, rule.support, rule.pairs), rule)
    return list(kept.values())


def _paths(known: KnownTriples, head: int, relation: int, tail: int) -> list[tuple[Ids, Ids]]:
    """For each length that there is: entities between head and tail (n, length − 1) and ends (n, length)."""
    _, ends, targets = known.steps(np.array([head]))
    asked = (ends == relation) & (targets == tail)
    direct = ends[(targets == tail) & ~asked]
    between = (targets != tail) & (targets != head)
    ends, targets = ends[between], targets[between].astype(np.int64)
    _, last_ends, last_sources = known.steps(np.array([tail]))
    order = np.argsort(last_sources, kind="stable")
    last_ends, last_sources = known.turned(last_ends[order]), last_sources[order].astype(np.int64)
    found = [(np.empty((len(direct), 0), dtype=np.int64), direct[:, None])]

    starts, counts = ranges_of(last_sources, targets)
    _, places = expand_ranges(starts, counts)
    found.append((np.repeat(targets, counts)[:, None], np.stack([np.repeat(ends, counts), last_ends[places]], axis=1)))

    degrees = known.degrees[targets]
    chosen = np.argsort(degrees, kind="stable")[:_FIRST_STEPS]
    chosen = chosen[np.cumsum(degrees[chosen]) <= _SECOND_STEPS]
    step, second_ends, second = known.steps(targets[chosen])
    first_ends, first = ends[chosen][step], targets[chosen][step]
    kept = (second != head) & (second != tail) & np.isin(second, last_sources)
    first_ends, first, second_ends, second = (part[kept] for part in (first_ends, first, second_ends, second))
    starts, counts = ranges_of(last_sources, second.astype(np.int64))
    _, places = expand_ranges(starts, counts)
    walked = [np.repeat(part, counts) for part in (first, second, first_ends, second_ends)]
    found.append((np.stack(walked[:2], axis=1), np.stack([*walked[2:], last_ends[places]], axis=1)))
    return [(entities, ends) for entities, ends in found if len(ends)]


def _count(known: KnownTriples, ends: Sequence[int], head: int, relation: int, tail: int) -> tuple[int, int, bool]:
    """Support and pairs of the rule "a path over these ends ⇒ the relation", and whether they are of a sample."""
    origins = np.unique(known.edges(ends[0])[0]).astype(np.int64)
    sampled = len(origins) > _ORIGINS
    if sampled:
        origins = np.sort(np.random.default_rng(0).choice(origins, _ORIGINS, replace=False))
    reached = origins
    for end in ends:
        sources, targets = known.edges(end)
        starts, counts = ranges_of(sources, reached.astype(sources.dtype))
        fitting = np.cumsum(counts) <= _JOINED
        sampled |= not fitting.all()
        _, positions = expand_ranges(starts[fitting], counts[fitting])
        keys = np.unique(np.repeat(origins[fitting], counts[fitting]) * known.entity_count + targets[positions])
        origins, reached = np.divmod(keys, known.entity_count)
    counted = (origins != reached) & ~((origins == head) & (reached == tail))
    pairs = np.stack([origins[counted], np.full(int(counted.sum()), relation), reached[counted]], axis=1)
    return int(known.has(pairs).sum()), len(pairs), bool(sampled)
