"""Facts that follow from known ones along relations such as *is a* or *part of*.

Where (h, r, t′) is known and a path of these relations leads from t′ to t, (h, r, t) follows: who works on a cell type
works on cells. Such a fact holds, but it is no news, and a source that leaves it out does not say that it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from transher.deadline import slices
from transher.graph.known import KnownTriples

_QUERIES = 4_096  # at a time

Ids = NDArray[np.integer]


class Implied:
    """What follows from known triples along some relations (ids)."""

    def __init__(self, known: KnownTriples, along: Sequence[int]) -> None:
        self._known, self._along = known, tuple(along)

    def has(self, triples: Ids) -> NDArray[np.bool_]:
        """Whether each of the triples (n, 3) follows from others that are known: (n,)."""
        count = self._known.relation_count
        queries, query_of = np.unique(triples[:, 0].astype(np.int64) * count + triples[:, 1], return_inverse=True)
        order = np.argsort(query_of, kind="stable")
        ends = np.searchsorted(query_of[order], np.arange(len(queries) + 1))
        found = np.zeros(len(triples), np.bool_)
        for part, reached in self._reached(*np.divmod(queries, count)):
            own = order[ends[part.start] : ends[part.stop]]
            wanted = (query_of[own] - part.start) * self._known.entity_count + triples[own, 2]
            found[own] = np.isin(wanted, reached)
        return found

    def counts(self, heads: Ids, relation: int) -> NDArray[np.int64]:
        """How many of the heads each entity follows as a tail for, without being known as one: (entities,)."""
        size = self._known.entity_count
        counts = np.zeros(size, np.int64)
        for part, reached in self._reached(heads, np.full(len(heads), relation)):
            rows, tails = np.divmod(reached, size)
            own = heads[part][rows]
            new = ~self._known.answers("tail").has(own, np.full(len(own), relation), tails)
            counts += np.bincount(tails[new], minlength=size)
        return counts

    def _reached(self, heads: Ids, relations: Ids) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """For some of the queries (q,) at a time, all tails that follow: position in the slice · entities + tail,
        ascending. A path goes on from what was not reached before, so loops end."""
        size = self._known.entity_count
        for part in slices(len(heads), _QUERIES):
            offsets, tails = self._known.answers("tail").of(heads[part], relations[part])
            edge = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) * size + tails
            reached = np.empty(0, np.int64)
            while len(edge):
                rows, nodes = np.divmod(edge, size)
                steps: list[Ids] = [reached[:0]]
                for relation in self._along:
                    starts, further = self._known.answers("tail").of(nodes, np.full(len(nodes), relation))
                    row: NDArray[np.int64] = np.repeat(rows, np.diff(starts))
                    steps.append(row * size + further)
                edge = np.setdiff1d(np.concatenate(steps), reached)
                reached = np.union1d(reached, edge)
            yield part, reached
