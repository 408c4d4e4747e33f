"""Known answers: which entities are already known to answer a query, for filters, weights and marks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transher.graph.graph import Side, Triples
from transher.graph.ragged import expand_ranges, ranges_of

_LARGEST_KEY = np.iinfo(np.int64).max
_MANY_QUERIES = 1 << 16


class KnownAnswers:
    """Index of the distinct answers to every (anchor, relation) of one side.

    `side` is the end that is asked for: with "tail" the anchors are heads and the answers tails, with "head" the other
    way round. Two flat arrays, sorted by (anchor, relation, answer), take 12 bytes a triple, and a look-up is a
    binary search.
    """

    def __init__(self, triples: Triples, entity_count: int, relation_count: int, side: Side) -> None:
        self.side = side
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

    def counts(self, anchors: NDArray[np.integer], relations: NDArray[np.integer]) -> NDArray[np.int64]:
        """How many answers each of B queries has: (B,)."""
        starts, ends = self.ranges(anchors, relations)
        return ends - starts

    def has(
        self, anchors: NDArray[np.integer], relations: NDArray[np.integer], answers: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Whether each of B triples is known: (B,)."""
        offsets, known = self.of(anchors, relations)
        query = np.repeat(np.arange(len(answers)), np.diff(offsets))
        found = np.zeros(len(answers), dtype=np.bool_)
        found[query[known == np.asarray(answers)[query]]] = True
        return found

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
