"""Relations that others make up: r1(a, b) and r2(b, c) ⇒ r3(a, c), found in a sample and counted in full."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from transher.graph.graph import Triples
from transher.graph.patterns import SUPPORT
from transher.graph.ragged import expand_ranges, ranges_of

CONFIDENCE = 0.5  # less than for inverses: even "born in a city of a country" has exceptions
_SAMPLED = 20_000  # triples to which paths of two steps are looked for
_STEPS = 10_000_000  # first steps of such paths
_COUNTED = 300  # most promising rules that are counted in full
_LARGEST_JOIN = 1_000_000  # paths of a rule; above it a rule is not counted


class Compositions(NamedTuple):
    """Rules r1(a, b) ∧ r2(b, c) ⇒ r3(a, c) with a ≠ c, one entry each: (rules,)."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    conclusions: NDArray[np.int64]
    support: NDArray[np.int64]  # pairs (a, c) that a path joins and the conclusion too
    confidence: NDArray[np.float64]  # support over the pairs that a path joins


def composed_relations(triples: Triples, entity_count: int, relation_count: int) -> Compositions:
    """The strongest rules, by support. Time is bounded, so rules over hubs, with more than a million paths, and
    those that a sample shows no trace of, are not among them. triples: (n, 3), distinct."""
    triples = triples[triples[:, 0] != triples[:, 2]]
    candidates = _candidates(triples, entity_count, relation_count)
    by_relation = triples[np.argsort(triples[:, 1], kind="stable")].astype(np.int64)
    bounds = np.searchsorted(by_relation[:, 1], np.arange(relation_count + 1))

    def edges(relation: int) -> NDArray[np.int64]:
        return by_relation[bounds[relation] : bounds[relation + 1], ::2]

    rules = []
    for first, second, conclusion in candidates.tolist():
        paths = _joined_pairs(edges(first), edges(second), entity_count)
        support = int(np.isin(paths, edges(conclusion) @ np.array([entity_count, 1])).sum())
        if support >= SUPPORT and support >= CONFIDENCE * len(paths):
            rules.append((first, second, conclusion, support, len(paths)))
    rules.sort(key=lambda rule: (-rule[3], rule[:3]))
    table = np.array(rules, dtype=np.int64).reshape(-1, 5)
    return Compositions(table[:, 0], table[:, 1], table[:, 2], table[:, 3], table[:, 3] / table[:, 4])


def _candidates(triples: Triples, entity_count: int, relation_count: int) -> NDArray[np.int64]:
    """Rules worth counting, (rules, 3): r1, r2, r3, the ones with most sampled conclusions per path first."""
    sample = triples[np.random.default_rng(0).permutation(len(triples))[:_SAMPLED]].astype(np.int64)
    by_head = triples[np.argsort(triples[:, 0], kind="stable")].astype(np.int64)
    starts, counts = ranges_of(np.ascontiguousarray(by_head[:, 0]), sample[:, 0])
    kept = np.cumsum(counts) <= _STEPS
    sample, starts, counts = sample[kept], starts[kept], counts[kept]
    _, steps = expand_ranges(starts, counts)
    owner = np.repeat(np.arange(len(sample)), counts)  # which sampled triple a first step belongs to

    pairs = by_head[:, 0] * entity_count + by_head[:, 2]
    by_pair = np.argsort(pairs, kind="stable")
    starts, counts = ranges_of(pairs[by_pair], by_head[steps, 2] * entity_count + sample[owner, 2])
    _, second_steps = expand_ranges(starts, counts)
    first = np.repeat(by_head[steps, 1], counts)
    second = by_head[by_pair[second_steps], 1]
    owner = np.repeat(owner, counts)
    # A conclusion counts once for a rule, however many paths lead to it.
    found = np.unique(np.stack([owner, first, second], axis=1), axis=0)
    rules = np.stack([found[:, 1], found[:, 2], sample[found[:, 0], 1]], axis=1)
    rules, traces = np.unique(rules, axis=0, return_counts=True)

    paths = _path_counts(triples, entity_count, relation_count, rules[:, 0], rules[:, 1])
    traced = (traces >= 2) & (paths <= _LARGEST_JOIN)
    order = np.argsort(-(traces[traced] / paths[traced]), kind="stable")[:_COUNTED]
    promising: NDArray[np.int64] = rules[traced][order]
    return promising


def _path_counts(
    triples: Triples,
    entity_count: int,
    relation_count: int,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> NDArray[np.int64]:
    """How many paths of two steps, of relation first[i] and then second[i], there are: (n,), none of them 0."""
    ones = np.ones(len(triples), dtype=np.int64)
    shape = (relation_count, entity_count)
    arriving = sparse.csr_array((ones, (triples[:, 1], triples[:, 2])), shape=shape)
    leaving = sparse.csr_array((ones, (triples[:, 1], triples[:, 0])), shape=shape)
    counts = (arriving @ leaving.T).tocoo()
    keys = counts.row.astype(np.int64) * relation_count + counts.col
    order = np.argsort(keys)
    places = np.searchsorted(keys, first * relation_count + second, sorter=order)
    return np.asarray(counts.data[order[places]], dtype=np.int64)


def _joined_pairs(first: NDArray[np.int64], second: NDArray[np.int64], entity_count: int) -> NDArray[np.int64]:
    """Distinct (a, c), a ≠ c, as one integer each, with (a, b) in `first` and (b, c) in `second`: edges (n, 2)."""
    second = second[np.argsort(second[:, 0], kind="stable")]
    starts, counts = ranges_of(np.ascontiguousarray(second[:, 0]), first[:, 1])
    _, positions = expand_ranges(starts, counts)
    heads, tails = np.repeat(first[:, 0], counts), second[positions, 1]
    different = heads != tails
    return np.unique(heads[different] * entity_count + tails[different])
