"""Graphs of different kinds, each with a reason why some scorer suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from tests.conftest import make_graph

from transher.graph.graph import Graph

Triple = tuple[int, int, int]


def split(triples: Iterable[Triple], seed: int = 0) -> Graph:
    """A tenth for validation and a tenth for the test."""
    shuffled = np.random.default_rng(seed).permutation(np.unique(np.array(list(triples)), axis=0))
    tenth = len(shuffled) // 10
    return make_graph(shuffled[2 * tenth :], shuffled[:tenth], shuffled[tenth : 2 * tenth])


def symmetric(count: int = 120, seed: int = 0) -> Graph:
    """Friends of friends: r0 holds both ways, within groups."""
    draw = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(count) for j in range(i) if i % 12 == j % 12 and draw.random() < 0.7]
    return split([(i, 0, j) for i, j in pairs] + [(j, 0, i) for i, j in pairs])


def hierarchical(count: int = 250) -> Graph:
    """A tree: r0 leads to the parent, r1 to its parent, r2 to every ancestor."""
    parent = {child: (child - 1) // 3 for child in range(1, count)}
    triples = [(child, 0, own) for child, own in parent.items()]
    triples += [(child, 1, parent[own]) for child, own in parent.items() if own]
    for child, own in parent.items():
        while own:
            triples.append((child, 2, own))
            own = parent[own]
    return split(triples)


def planted_rules(count: int = 300, seed: int = 0) -> Graph:
    """Two random functions r0 and r1, and r2, which is one after the other: nothing but the rule tells r2."""
    draw = np.random.default_rng(seed)
    first, second = draw.integers(0, count, (2, count))
    triples = [(i, 0, int(first[i])) for i in range(count)] + [(i, 1, int(second[i])) for i in range(count)]
    composed = [(i, 2, int(second[first[i]])) for i in range(count)]
    held = draw.permutation(len(composed))
    valid, test, rest = np.split(np.array(composed)[held], [60, 120])
    return make_graph(np.concatenate([np.array(triples), rest]), valid, test)


def bilinear(count: int = 60, relations: int = 8, seed: int = 0) -> Graph:
    """A pair holds where a random product of hidden vectors is large: what dot products are made for."""
    draw = np.random.default_rng(seed)
    hidden, kinds = draw.normal(size=(count, 4)), draw.normal(size=(relations, 4, 4))
    scores = np.einsum("ik,rkl,jl->irj", hidden, kinds, hidden)
    return split((i, r, j) for i, r, j in np.argwhere(scores > np.quantile(scores, 0.92)).tolist())


def grid(side: int = 14, seed: int = 0) -> Graph:
    """Places on a grid, and moves by one or two: what translations are made for."""
    draw = np.random.default_rng(seed)
    moves = [(1, 0), (0, 1), (2, 1), (-1, 2), (-2, -2), (3, -1)]
    triples = [
        (x * side + y, number, (x + dx) * side + y + dy)
        for number, (dx, dy) in enumerate(moves)
        for x in range(side)
        for y in range(side)
        if 0 <= x + dx < side and 0 <= y + dy < side and draw.random() < 0.5
    ]
    return split(triples)


KINDS: dict[str, Callable[[], Graph]] = {
    "symmetric": symmetric,
    "hierarchical": hierarchical,
    "planted rules": planted_rules,
    "bilinear": bilinear,
    "grid": grid,
}
