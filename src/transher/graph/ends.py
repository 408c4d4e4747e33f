"""Who may stand at an end of a relation: the one rule for eligible entities, facts of an entity with itself, and
relations with a single answer.

An entity fits an end if the graph has it there; or, where entities have types, if others of its type are there; or,
where they have none, if it stands at another end of whose entities most are there too: a city without a country fits
the head of `located_in`, since most of what has a time zone lies somewhere. An entity that fits is *eligible* unless
the relation has a single answer and the entity has it already.

How *alike* an entity is to those at an end says more: a country has a time zone too, but nothing that borders anything
lies in a country. It is 1 where the entity stands there, and otherwise the least share, over the ends at which it does
stand, of their entities that are also at this one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from transher.graph.known import KnownTriples

_MOST = 0.5  # share of an end's entities that are at another, from which on all of them fit there
SINGLE = 0.95  # share of anchors with one answer from which on a relation is taken to have a single answer
_CASES = 10  # anchors that it takes to say so

Ids = NDArray[np.int32]


class Ends:
    """Entities by end, as `KnownTriples` numbers them. `entity_types`: (entities,) or None."""

    def __init__(self, known: KnownTriples, entity_types: Ids | None = None) -> None:
        self._known = known
        fitting = self._fitting(self._standing, entity_types)
        fitting.sort_indices()
        self._alike: dict[int, NDArray[np.float32]] = {}
        self.starts: NDArray[np.int64] = fitting.indptr.astype(np.int64)  # (ends + 1,)
        self.entities: Ids = fitting.indices.astype(np.int32)  # that fit end e: entities[starts[e]:starts[e + 1]]

    def fitting(self, end: int) -> Ids:
        """The entities that fit an end, ascending."""
        return self.entities[self.starts[end] : self.starts[end + 1]]

    def eligible(self, end: int) -> Ids:
        """Those of them that may still have a further answer."""
        if not self.single[end] >= SINGLE:
            return self.fitting(end)
        return np.setdiff1d(self.fitting(end), self._at(end), assume_unique=True)

    @cached_property
    def eligible_pairs(self) -> NDArray[np.int64]:
        """How many pairs of an eligible head and an eligible tail each relation has: (relations,)."""
        sizes = np.diff(self.starts)
        complete = np.flatnonzero(self.single >= SINGLE)  # all that stand there fit there, and have their answer
        sizes[complete] -= np.diff(self._standing.indptr)[complete]
        heads, tails = sizes.reshape(2, -1)
        pairs: NDArray[np.int64] = heads * tails
        return pairs

    def fits(self, triples: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of triples (n, 3) have a head and a tail that fit their ends: (n,)."""
        fits = np.zeros(len(triples), dtype=np.bool_)
        for relation in np.unique(triples[:, 1]).tolist():
            rows = np.flatnonzero(triples[:, 1] == relation)
            heads, tails = (self.fitting(end) for end in (relation, relation + self._known.relation_count))
            fits[rows] = np.isin(triples[rows, 0], heads) & np.isin(triples[rows, 2], tails)
        return fits

    def fits_at(self, ends: NDArray[np.integer], entities: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Whether each of entities (n,) fits its end (n,): (n,)."""
        fits = np.zeros(len(ends), dtype=np.bool_)
        for end in np.unique(ends).tolist():
            rows, own = np.flatnonzero(ends == end), self.fitting(end)
            places = np.minimum(np.searchsorted(own, entities[rows]), max(len(own) - 1, 0))
            fits[rows] = own[places] == entities[rows] if len(own) else False
        return fits

    def alike_at(self, ends: NDArray[np.integer], entities: NDArray[np.integer]) -> NDArray[np.float32]:
        """How alike each of entities (n,) is to those at its end (n,), from 0 to 1: (n,). 0 where it does not fit."""
        found = np.zeros(len(ends), np.float32)
        for end in np.unique(ends).tolist():
            rows, own = np.flatnonzero(ends == end), self.fitting(end)
            if end not in self._alike:
                self._alike[end] = self._likeness(end, own)
            places = np.minimum(np.searchsorted(own, entities[rows]), max(len(own) - 1, 0))
            if len(own):
                found[rows] = np.where(own[places] == entities[rows], self._alike[end][places], 0)
        return found

    def _likeness(self, end: int, entities: Ids) -> NDArray[np.float32]:
        """How alike entities (n,) that fit an end are to those that stand there: (n,)."""
        here = np.zeros(self._known.entity_count, np.float64)
        here[self._at(end)] = 1
        # Of each end's entities, the share that is also here; two more entities, of which one is, make up for few.
        shares = (self._seen @ here + 1) / (self.standing_counts + 2)
        own = self._of_entities[entities]
        counts = np.diff(own.indptr)
        least = np.full(len(entities), 0.5)
        some = np.flatnonzero(counts)
        if len(some):
            least[some] = np.minimum.reduceat(shares[own.indices], own.indptr[some])
        return np.where(here[entities] > 0, 1, least).astype(np.float32)

    @cached_property
    def standing_counts(self) -> NDArray[np.int64]:
        """How many entities the graph has at each end: (ends,)."""
        return np.diff(self._standing.indptr).astype(np.int64)

    @cached_property
    def alone_counts(self) -> NDArray[np.int64]:
        """How many of them have one answer only: (ends,)."""
        counts = self._standing
        ends = np.repeat(np.arange(len(self.standing_counts)), self.standing_counts)
        return np.bincount(ends[counts.data == 1], minlength=len(self.standing_counts))

    def taken(self, triples: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of triples (n, 3) have an end with a single answer, and that answer is another one: (n,)."""
        heads, relations, tails = triples.T
        itself = self._known.has(triples).astype(np.int64)
        other_tail = self._known.answers("tail").counts(heads, relations) > itself
        other_head = self._known.answers("head").counts(tails, relations) > itself
        single = self.single >= SINGLE
        count = self._known.relation_count
        mask: NDArray[np.bool_] = (single[relations] & other_tail) | (single[relations + count] & other_head)
        return mask

    @cached_property
    def second_answers(self) -> NDArray[np.float64]:
        """How often an entity with its single answer has a further one, out of all pairs that it fits: (relations,)."""
        standing, sizes = self._standing, np.diff(self.starts).reshape(2, -1)
        at = np.diff(standing.indptr)
        extra = np.asarray(standing.sum(axis=1)).reshape(-1) - at
        extra, at = (np.where(self.single >= SINGLE, part, 0).reshape(2, -1) for part in (extra, at))
        pairs = at[0] * sizes[1] + at[1] * sizes[0]
        shares: NDArray[np.float64] = (extra.sum(0) + 0.5) / (pairs + 1)
        return shares

    @cached_property
    def single(self) -> NDArray[np.float64]:
        """Which share of the entities at each end has one answer only: (ends,); 0 where there are too few to say."""
        standing = self.standing_counts
        return np.where(standing < _CASES, 0.0, self.alone_counts / np.maximum(standing, 1))

    def plausible(self, triples: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of triples (n, 3) do not join an entity with itself, unless the relation has such facts: (n,)."""
        heads, relations, tails = triples.T
        mask: NDArray[np.bool_] = (heads != tails) | self._known.has_loops[relations]
        return mask

    def of(self, entity: int) -> NDArray[np.int64]:
        """The ends at which an entity is eligible, ascending."""
        fits = np.searchsorted(self.starts, np.flatnonzero(self.entities == entity), side="right") - 1
        taken = (self.single[fits] >= SINGLE) & np.isin(fits, self._known.steps(np.array([entity]))[1])
        ends: NDArray[np.int64] = fits[~taken]
        return ends

    def _at(self, end: int) -> Ids:
        """The entities that the graph has at an end."""
        standing = self._standing
        return np.asarray(standing.indices[standing.indptr[end] : standing.indptr[end + 1]], dtype=np.int32)

    @cached_property
    def _standing(self) -> sparse.csr_array:
        """How many answers each entity has at each end: (ends, entities)."""
        parts = []
        for side, first in (("tail", 0), ("head", self._known.relation_count)):
            anchors, relations, counts = self._known.answers(side).queries()  # type: ignore[arg-type]
            parts.append((relations + first, anchors, counts))
        rows, columns, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        shape = (2 * self._known.relation_count, self._known.entity_count)
        return sparse.csr_array((counts.astype(np.int32), (rows, columns)), shape=shape)

    @cached_property
    def _seen(self) -> sparse.csr_array:
        """Whether each entity stands at each end, 1 or 0: (ends, entities)."""
        seen = self._standing.copy()
        seen.data[:] = 1
        return seen

    @cached_property
    def _of_entities(self) -> sparse.csr_array:
        """The same by entity: (entities, ends)."""
        return sparse.csr_array(self._seen.T)

    @staticmethod
    def _fitting(standing: sparse.csr_array, entity_types: Ids | None) -> sparse.csr_array:
        seen = standing.copy()
        seen.data[:] = 1
        if entity_types is not None:
            count = len(entity_types)
            ones = np.ones(count, dtype=np.int32)
            of_type = sparse.csr_array((ones, (entity_types, np.arange(count))), shape=(entity_types.max() + 1, count))
            return sparse.csr_array((seen @ of_type.T) @ of_type)
        shared = (seen @ seen.T).tocoo()
        sizes = np.maximum(np.diff(seen.indptr), 1)
        close = shared.data >= _MOST * sizes[shared.col]
        links = sparse.csr_array(
            (np.ones(int(close.sum()), dtype=np.int32), (shared.row[close], shared.col[close])),
            shape=(len(sizes), len(sizes)),
        )
        return sparse.csr_array(links @ seen)
