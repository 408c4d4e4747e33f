"""One set of triples into train, valid and test, so that the test is neither impossible nor given away."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from transher.errors import UsageError
from transher.graph.encoding import triple_keys
from transher.graph.graph import Split, Triples
from transher.graph.patterns import duplicate_relations, inverse_relations

FRACTIONS = (0.8, 0.1, 0.1)  # train, valid, test: as PyKEEN's default


def split_triples(
    triples: Triples,
    entity_count: int,
    relation_count: int,
    *,
    seed: int = 0,
    fractions: tuple[float, float, float] = FRACTIONS,
    keep_inverse_leaks: bool = False,
) -> dict[Split, NDArray[np.int64]]:
    """Ascending positions of distinct `triples`, (n, 3), for each split. The same triples in any order are split the
    same way.

    - Every entity and relation has a training triple, so train takes what that needs even beyond its fraction.
    - Two triples between the same two entities fall into the same split when their relations are the same (turned
      round), or one nearly implies the other, straight or turned round: either would give the other away.
      `keep_inverse_leaks` lifts this.
    """
    if len(fractions) != 3 or min(fractions) < 0 or fractions[0] <= 0 or abs(sum(fractions) - 1) > 1e-6:
        raise UsageError(f"fractions={fractions}: three shares for train, valid and test that add up to 1.")
    generator = np.random.default_rng(seed)
    shuffled = generator.permutation(np.argsort(triple_keys(triples, entity_count, relation_count)))
    drawn = triples[shuffled]
    groups = np.arange(len(drawn)) if keep_inverse_leaks else _leak_groups(drawn, entity_count, relation_count)
    sizes = np.bincount(groups)
    needed = np.zeros(len(sizes), dtype=np.bool_)
    needed[groups[_covering(drawn, entity_count, relation_count)]] = True

    free = np.flatnonzero(~needed)  # in random order, since groups are numbered as drawn
    ends = np.cumsum(sizes[free])
    wanted = np.array([fractions[2], fractions[1]]) * len(triples)
    if len(ends) and wanted.sum() > ends[-1]:
        wanted *= ends[-1] / wanted.sum()  # too few are free: share them alike
    test_end, valid_end = np.cumsum(np.rint(wanted))
    place = np.zeros(len(sizes), dtype=np.int8)
    place[free[(ends > test_end) & (ends <= valid_end)]] = 1
    place[free[ends <= test_end]] = 2
    placed = place[groups]
    return {
        "train": np.sort(shuffled[placed == 0]),
        "valid": np.sort(shuffled[placed == 1]),
        "test": np.sort(shuffled[placed == 2]),
    }


def _covering(triples: Triples, entity_count: int, relation_count: int) -> NDArray[np.bool_]:
    """Which of triples (n, 3) are the first with their relation, head or tail: together they have all of them."""
    count = len(triples)
    chosen = np.zeros(count, dtype=np.bool_)
    for size, columns in ((relation_count, (1,)), (entity_count, (0, 2))):
        first = np.full(size, count)
        for column in columns:
            np.minimum.at(first, triples[:, column], np.arange(count))
        chosen[first[first < count]] = True
    return chosen


def _leak_groups(triples: Triples, entity_count: int, relation_count: int) -> NDArray[np.int64]:
    """A group number per triple, (n,), by unordered pair of entities and family of relations; groups are numbered in
    the order of their first triples."""
    straight = duplicate_relations(triples, entity_count, relation_count)
    turned = inverse_relations(triples, entity_count, relation_count)
    one = np.concatenate([straight.premises, turned.premises])
    other = np.concatenate([straight.conclusions, turned.conclusions])
    links = sparse.coo_array((np.ones(len(one)), (one, other)), shape=(relation_count, relation_count))
    family = connected_components(links, directed=False)[1]
    ends = np.sort(triples[:, [0, 2]], axis=1)
    members = np.stack([ends[:, 0], family[triples[:, 1]], ends[:, 1]], axis=1).astype(np.int32)
    keys = triple_keys(members, entity_count, relation_count)
    _, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    ranks = np.empty(len(first), dtype=np.int64)
    ranks[np.argsort(first)] = np.arange(len(first))
    return ranks[groups]
