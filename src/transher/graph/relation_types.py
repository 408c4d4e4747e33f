"""Relation types: how many tails a head has and how many heads a tail has, relation by relation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transher.graph.graph import Graph

RELATION_TYPES = ("1-1", "1-N", "N-1", "N-N")

_MANY = 1.5  # a side is N from here on


def relation_types(graph: Graph) -> NDArray[np.int8]:
    """The type of every relation (relations,), as positions in RELATION_TYPES, over all splits: tph, triples per
    distinct (head, relation), makes the tail N; hpt, triples per distinct (relation, tail), makes the head N."""
    heads, relations, tails = graph.all_triples.T
    count = len(graph.relations)
    triples = np.bincount(relations, minlength=count)
    many = [triples >= _MANY * np.maximum(_distinct(ends, relations, count), 1) for ends in (heads, tails)]
    return (many[0] + 2 * many[1]).astype(np.int8)


def _distinct(ends: NDArray[np.int32], relations: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """How many distinct entities stand at one end of each relation (relations,)."""
    pairs = np.unique(ends.astype(np.int64) * count + relations)
    return np.bincount(pairs % count, minlength=count)
