"""What was added lately: how many of the facts that came later have a given answer.

Somebody who fits the judge on later facts asks what will be added next, and additions come in waves: what was written
down of many entities this year is written down of others next year. A judge may not see the fact that it is asked
about, so for each head the facts of all heads in its fold are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transher.graph.graph import Triples

FOLDS = 5
_OFTEN, _MOST = 5, 30  # facts that make an answer frequent, and the frequent answers of a relation that are looked at


def fold_of(heads: NDArray[np.integer], folds: int = FOLDS) -> NDArray[np.int64]:
    """The fold of each of the heads (n,), which one of the judge's boosters was fitted without: (n,)."""
    mixed = (heads.astype(np.int64) * 2654435761) % (1 << 32) >> 7
    return np.asarray(mixed % folds, np.int64)


@dataclass(frozen=True)
class Recent:
    """Later facts by their answers."""

    keys: NDArray[np.int64]  # (n,) ascending: tail · relations + relation
    counts: NDArray[np.int32]  # (n, FOLDS): facts by the fold of their head
    relation_count: int

    @classmethod
    def of(cls, later: Triples, relation_count: int) -> Recent:
        keys, places = np.unique(later[:, 2].astype(np.int64) * relation_count + later[:, 1], return_inverse=True)
        counts = np.bincount(places * FOLDS + fold_of(later[:, 0]), minlength=len(keys) * FOLDS)
        return cls(keys, counts.reshape(-1, FOLDS).astype(np.int32), relation_count)

    def of_others(self, triples: NDArray[np.integer]) -> NDArray[np.int32]:
        """How many later facts have the relation and the tail of triples (n, 3), and a head of another fold: (n,)."""
        wanted = triples[:, 2].astype(np.int64) * self.relation_count + triples[:, 1]
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        found = self.counts[places].sum(1) - self.counts[places, fold_of(triples[:, 0])]
        return np.where(self.keys[places] == wanted, found, 0)

    def frequent(self, relation: int) -> NDArray[np.int64]:
        """The tails that came most often with a relation, ascending."""
        own = np.flatnonzero(self.keys % self.relation_count == relation)
        facts = self.counts[own].sum(1)
        leading = np.argsort(-facts, kind="stable")[:_MOST]
        return np.sort(self.keys[own[leading[facts[leading] >= _OFTEN]]] // self.relation_count)
