"""Known triples: the one index of what a graph holds, by query, by entity, by pair of entities and by relation.

An *end* is a side of a relation at which entities stand: end `relation` is that of its heads, end `relation +
relation_count` that of its tails. A triple can be walked either way, and such a step is named by the end at which it
starts.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from transher.graph.ragged import expand_ranges, ranges_of

if TYPE_CHECKING:
    from transher.graph.graph import Side, Triples

Number = TypeVar("Number", int, NDArray[np.int32], NDArray[np.int64])

_LARGEST_KEY = np.iinfo(np.int64).max
_MANY_QUERIES = 1 << 16


class KnownAnswers:
    """Index of the distinct answers to every (anchor, relation) of one side.

    `side` is the end that is asked for: with "tail" the anchors are heads and the answers tails, with "head" the other
    way round. Two flat arrays, sorted by (anchor, relation, answer), take 12 bytes a triple, and a look-up is a
    binary search.
    """

    def __init__(self, triples: Triples, entity_count: int, relation_count: int, side: Side) -> None:
        self.relation_count = relation_count
        anchor, answer = (0, 2) if side == "tail" else (2, 0)
        keys = self._keys(triples[:, anchor], triples[:, 1])
        if entity_count * entity_count * relation_count <= _LARGEST_KEY:
            # The whole triple fits into one integer: sorting that in place is several times faster than a lexsort.
            keys *= max(entity_count, 1)
            keys += triples[:, answer]
            keys.sort()
            answers = (keys % max(entity_count, 1)).astype(np.int32)
            keys //= max(entity_count, 1)
        else:
            order = np.lexsort((triples[:, answer], keys))
            keys, answers = keys[order], triples[order, answer].astype(np.int32)
        if len(keys):
            first = np.empty(len(keys), dtype=np.bool_)
            first[0] = True
            np.logical_or(keys[1:] != keys[:-1], answers[1:] != answers[:-1], out=first[1:])
            if not first.all():
                keys, answers = keys[first], answers[first]
        self._sorted_keys: NDArray[np.int64] = keys
        self.answers: NDArray[np.int32] = answers

    def __len__(self) -> int:
        """How many distinct triples are indexed."""
        return len(self.answers)

    def of(
        self, anchors: NDArray[np.integer], relations: NDArray[np.integer]
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """The answers to B queries, ragged. anchors, relations: (B,). Gives offsets (B + 1,) and answers
        (offsets[-1],): query i's are `answers[offsets[i]:offsets[i + 1]]`, ascending, none twice."""
        starts, counts = ranges_of(self._sorted_keys, self._keys(anchors, relations))
        offsets, positions = expand_ranges(starts, counts)
        return offsets, self.answers[positions]

    def queries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Anchors, relations and numbers of answers (q,) of the queries that have some, by anchor and relation."""
        starts = np.flatnonzero(np.diff(self._sorted_keys, prepend=-1))
        anchors, relations = np.divmod(self._sorted_keys[starts], max(self.relation_count, 1))
        return anchors, relations, np.diff(starts, append=len(self._sorted_keys))

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Anchors and relations (n,) that the answers (n,) belong to."""
        anchors, relations = np.divmod(self._sorted_keys, max(self.relation_count, 1))
        return anchors, relations

    def of_anchors(
        self, anchors: NDArray[np.integer]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """All that is known of B anchors, ragged: offsets (B + 1,), relations and answers (offsets[-1],)."""
        first = np.asarray(anchors, dtype=np.int64) * self.relation_count
        starts, ends = (np.searchsorted(self._sorted_keys, keys) for keys in (first, first + self.relation_count))
        offsets, positions = expand_ranges(starts, ends - starts)
        return offsets, self._sorted_keys[positions] - np.repeat(first, ends - starts), self.answers[positions]

    def counts(self, anchors: NDArray[np.integer], relations: NDArray[np.integer]) -> NDArray[np.int64]:
        """How many answers each of B queries has: (B,)."""
        starts, ends = self.ranges(anchors, relations)
        return ends - starts

    def has(
        self, anchors: NDArray[np.integer], relations: NDArray[np.integer], answers: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Whether each of B triples is known: (B,)."""
        found: NDArray[np.bool_] = self.places(anchors, relations, answers) >= 0
        return found

    def places(
        self, anchors: NDArray[np.integer], relations: NDArray[np.integer], answers: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Where in `answers` each of B triples is: (B,), −1 for those that are not known."""
        first, last = self.ranges(anchors, relations)
        end, wanted = last.copy(), np.asarray(answers)
        for _ in range(int(np.max(last - first, initial=0)).bit_length()):  # a binary search within each range
            middle = (first + last) // 2
            below = self.answers[np.minimum(middle, len(self.answers) - 1)] < wanted
            first, last = np.where(below & (first < last), middle + 1, first), np.where(below, last, middle)
        found = first < end
        found[found] = self.answers[first[found]] == wanted[found]
        return np.where(found, first, -1)

    def ranges(
        self, anchors: NDArray[np.integer], relations: NDArray[np.integer]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where in `answers` those of each of B queries start and end: two (B,)."""
        keys = self._keys(anchors, relations)
        if len(keys) < _MANY_QUERIES:
            return np.searchsorted(self._sorted_keys, keys), np.searchsorted(self._sorted_keys, keys, side="right")
        # In ascending order neighbours are found in neighbouring places, which are in the cache: six times as fast for
        # all triples of a large graph, sorting included.
        order = np.argsort(keys)
        ascending = keys[order]
        starts, ends = np.empty_like(keys), keys  # the keys have served
        starts[order] = np.searchsorted(self._sorted_keys, ascending)
        ends[order] = np.searchsorted(self._sorted_keys, ascending, side="right")
        return starts, ends

    def _keys(self, anchors: NDArray[np.integer], relations: NDArray[np.integer]) -> NDArray[np.int64]:
        keys = np.asarray(anchors).astype(np.int64)  # a copy: worked on in place
        keys *= self.relation_count
        keys += np.asarray(relations)
        return keys


class KnownTriples:
    """The distinct ones of some triples. Each part is made when it is first asked for; all together take some 40 bytes
    a triple."""

    def __init__(self, triples: Triples, entity_count: int, relation_count: int) -> None:
        self._triples = triples
        self.entity_count, self.relation_count = entity_count, relation_count

    def __len__(self) -> int:
        return len(self._tails)

    def answers(self, side: Side) -> KnownAnswers:
        """The index of the answers for `side`."""
        return self._tails if side == "tail" else self._heads

    def has(self, triples: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each of triples (n, 3) is known: (n,)."""
        heads, relations, tails = triples.T
        return self._tails.has(heads, relations, tails)

    def between(self, head: int, tail: int) -> NDArray[np.int64]:
        """The relations that are known to hold from head to tail, from whichever of the two has fewer facts."""
        index, anchor, answer = self._tails, head, tail
        if self.degrees[tail] < self.degrees[head]:
            index, anchor, answer = self._heads, tail, head
        _, relations, answers = index.of_anchors(np.array([anchor]))
        found: NDArray[np.int64] = relations[answers == answer]
        return found

    def end(self, relation: Number, side: Side) -> Number:
        """The end of a relation, or of each of relations (n,), at which the answers for `side` stand."""
        return relation + self.relation_count if side == "tail" else relation

    def turned(self, ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """The other ends of the same relations."""
        return (ends + self.relation_count) % (2 * self.relation_count)

    def steps(self, entities: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
        """All steps from B entities: which of the entities each starts from, at which end, and where it leads: (n,)
        each. First those of all heads, then those of all tails."""
        parts = []
        for side, first in (("tail", 0), ("head", self.relation_count)):
            offsets, relations, targets = self.answers(side).of_anchors(entities)  # type: ignore[arg-type]
            parts.append((np.repeat(np.arange(len(entities)), np.diff(offsets)), relations + first, targets))
        sources, ends, targets = (np.concatenate(column) for column in zip(*parts, strict=True))
        return sources, ends, targets

    def edges(self, end: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Sources, ascending, and targets (n,) of all steps that start at an end."""
        starts, sources, targets = self._by_end
        part = slice(starts[end], starts[end + 1])
        return sources[part], targets[part]

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """How many triples each entity takes part in: (entities,)."""
        ends = np.concatenate([self._tails.answers, self._heads.answers])
        return np.bincount(ends, minlength=self.entity_count)

    @cached_property
    def relation_counts(self) -> NDArray[np.int64]:
        """How many triples each relation has: (relations,)."""
        return np.bincount(self._tails.pairs()[1], minlength=self.relation_count)

    @cached_property
    def has_loops(self) -> NDArray[np.bool_]:
        """Whether each relation joins some entity with itself: (relations,)."""
        found = np.zeros(self.relation_count, dtype=np.bool_)
        anchors, relations = self._tails.pairs()
        found[relations[anchors == self._tails.answers]] = True
        return found

    @cached_property
    def _tails(self) -> KnownAnswers:
        return KnownAnswers(self._triples, self.entity_count, self.relation_count, "tail")

    @cached_property
    def _heads(self) -> KnownAnswers:
        return KnownAnswers(self._triples, self.entity_count, self.relation_count, "head")

    @cached_property
    def _by_end(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Where each end's steps start, and all sources and targets (2n,), sorted by end, source and target."""
        parts = []
        for index in (self._tails, self._heads):
            anchors, relations = index.pairs()
            order = np.argsort(relations, kind="stable")  # within a relation, the index is in order already
            parts.append((anchors.astype(np.int32)[order], index.answers[order]))
        sources, targets = (np.concatenate(column) for column in zip(*parts, strict=True))
        starts = np.concatenate([[0], np.cumsum(np.tile(self.relation_counts, 2))])
        return starts, sources, targets
