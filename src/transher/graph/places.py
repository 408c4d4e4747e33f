"""Which entities could be the head or the tail of a relation.

A place is one side of a relation. An entity fits a place if the graph has it there; or, where entities have types, if
others of its type are there; or, where they have none, if it stands in another place of whose entities most are there
too: a city without a country fits the head of `located_in`, since most of what has a time zone lies somewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from transher.graph.graph import Graph

_MOST = 0.5  # share of a place's entities that are in another, from which on all of them fit there
_ONE = 0.95  # share of entities with a single answer from which on a relation is taken to have only one
_CASES = 10  # entities that it takes to say so

Ids = NDArray[np.int32]


class Places:
    """Fitting entities by place. Place `relation` is its head, place `relation_count + relation` its tail."""

    def __init__(self, graph: Graph) -> None:
        self._relation_count, entity_count = len(graph.relations), len(graph.entities)
        heads, relations, tails = graph.all_triples.T
        rows = np.concatenate([relations, relations + self._relation_count])
        columns = np.concatenate([heads, tails])
        shape = (2 * self._relation_count, entity_count)
        self._counts = sparse.csr_array((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=shape)
        self._counts.sum_duplicates()
        seen = self._counts.copy()
        seen.data[:] = 1
        if graph.entity_types is not None:
            kinds = sparse.csr_array(
                (np.ones(entity_count, dtype=np.int32), (graph.entity_types, np.arange(entity_count))),
                shape=(len(graph.type_names), entity_count),
            )
            fitting = (seen @ kinds.T) @ kinds
        else:
            shared = (seen @ seen.T).tocoo()
            sizes = np.maximum(np.diff(seen.indptr), 1)
            close = shared.data >= _MOST * sizes[shared.col]
            links = sparse.csr_array(
                (np.ones(int(close.sum()), dtype=np.int32), (shared.row[close], shared.col[close])),
                shape=(len(sizes), len(sizes)),
            )
            fitting = links @ seen
        fitting.sort_indices()
        self.starts: NDArray[np.int64] = fitting.indptr.astype(np.int64)  # (places + 1,)
        self.entities: Ids = fitting.indices.astype(np.int32)  # those of place p are entities[starts[p]:starts[p + 1]]

    def heads(self, relation: int) -> Ids:
        return self._fitting(relation)

    def tails(self, relation: int) -> Ids:
        return self._fitting(self._relation_count + relation)

    def taken(self, relation: int) -> tuple[Ids, Ids]:
        """Heads that can have no further tail, and tails that can have no further head: where (nearly) every head of
        the relation has one tail, those that have it; and the same the other way round."""
        return self._complete(relation), self._complete(self._relation_count + relation)

    def _fitting(self, place: int) -> Ids:
        return self.entities[self.starts[place] : self.starts[place + 1]]

    def _complete(self, place: int) -> Ids:
        part = slice(self._counts.indptr[place], self._counts.indptr[place + 1])
        counts = self._counts.data[part]
        if len(counts) < _CASES or float((counts == 1).mean()) < _ONE:
            return np.empty(0, dtype=np.int32)
        return np.asarray(self._counts.indices[part], dtype=np.int32)
