"""Relations that say the same as others: duplicates, inverses and symmetric ones, found by counting shared pairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from transher.graph.graph import Triples

# A rule holds where this share of a relation's triples obeys it (Akrami et al. 2020 call relations with as much
# overlap redundant), and at least so many do.
CONFIDENCE = 0.8
SUPPORT = 5


class Implications(NamedTuple):
    """Rules r1(h, t) ⇒ r2(h, t), or r2(t, h), one entry each: (rules,)."""

    premises: NDArray[np.int64]  # r1
    conclusions: NDArray[np.int64]  # r2
    support: NDArray[np.int64]  # pairs for which both hold
    confidence: NDArray[np.float64]  # support over the pairs of r1


def duplicate_relations(triples: Triples, entity_count: int, relation_count: int) -> Implications:
    """Rules r1(h, t) ⇒ r2(h, t) between different relations."""
    pairs, columns = np.unique(_pair_keys(triples[:, 0], triples[:, 2], entity_count), return_inverse=True)
    incidence = _incidence(triples[:, 1], columns, (relation_count, len(pairs)))
    return _implications(incidence, incidence, ignore_diagonal=True)


def inverse_relations(triples: Triples, entity_count: int, relation_count: int) -> Implications:
    """Rules r1(h, t) ⇒ r2(t, h). Where r1 is r2 the relation is symmetric. Loops (h = t) say nothing and are left
    out."""
    heads, relations, tails = triples[triples[:, 0] != triples[:, 2]].T
    straight = heads < tails
    # One column for {h, t} as h < t writes it and one as h > t does: turning a triple round swaps the two.
    pairs, columns = np.unique(
        _pair_keys(np.minimum(heads, tails), np.maximum(heads, tails), entity_count), return_inverse=True
    )
    shape = (relation_count, 2 * len(pairs))
    incidence = _incidence(relations, 2 * columns + straight, shape)
    turned = _incidence(relations, 2 * columns + ~straight, shape)
    return _implications(incidence, turned, ignore_diagonal=False)


def _pair_keys(one: NDArray[np.int32], other: NDArray[np.int32], entity_count: int) -> NDArray[np.int64]:
    return one.astype(np.int64) * entity_count + other


def _incidence(
    relations: NDArray[np.integer], columns: NDArray[np.integer], shape: tuple[int, int]
) -> sparse.csr_array[np.int32, tuple[int, int]]:
    """Which pairs of entities each relation joins: (relations, pairs), 0 or 1."""
    matrix = sparse.csr_array((np.ones(len(relations), dtype=np.int32), (relations, columns)), shape=shape)
    matrix.data[:] = 1  # a triple that occurs twice is one pair
    return matrix


def _implications(
    premises: sparse.csr_array[np.int32, tuple[int, int]],
    conclusions: sparse.csr_array[np.int32, tuple[int, int]],
    ignore_diagonal: bool,
) -> Implications:
    shared = (premises @ conclusions.T).tocoo()
    counts = np.diff(premises.indptr)
    confidence = shared.data / counts[shared.row]
    strong = (shared.data >= SUPPORT) & (confidence >= CONFIDENCE)
    if ignore_diagonal:
        strong &= shared.row != shared.col
    kept = np.flatnonzero(strong)
    kept = kept[np.lexsort((shared.col[kept], shared.row[kept], -shared.data[kept].astype(np.int64)))]
    return Implications(
        shared.row[kept].astype(np.int64),
        shared.col[kept].astype(np.int64),
        shared.data[kept].astype(np.int64),
        confidence[kept],
    )
