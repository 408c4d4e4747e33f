"""Groups of entities to colour a map by: what the graph says of them, or where they stand most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transher.graph.graph import Graph

_PREFIXES = 30  # identifiers with more different beginnings are no types


class Groups(NamedTuple):
    """The group of each of n entities (n,), a position in `names` or −1 for none, and what a group is, in words."""

    group_of: NDArray[np.int64]
    names: list[str]
    what: str

    def largest(self, count: int) -> Groups:
        """The `count` largest groups in order of size; entities of the others are in none."""
        sizes = np.bincount(self.group_of[self.group_of >= 0], minlength=len(self.names))
        kept = np.argsort(-sizes, kind="stable")[: min(count, np.count_nonzero(sizes))]
        position = np.full(len(self.names) + 1, -1)  # the last one is for −1
        position[kept] = np.arange(len(kept))
        return Groups(position[self.group_of], [self.names[group] for group in kept.tolist()], self.what)


def entity_groups(graph: Graph) -> Groups:
    """Types where the graph has them, or where identifiers begin with a few words, as in city/2988507. Else where an
    entity stands most often: in the domain of relations like /film/film/genre, or at an end of a relation."""
    if graph.entity_types is not None:
        return Groups(graph.entity_types.astype(np.int64), list(graph.type_names), "type")
    prefixes = [name.partition("/")[0] if "/" in name else "" for name in graph.entities.identifiers.to_pylist()]
    if all(prefixes) and 1 < len(set(prefixes)) <= _PREFIXES:
        names, group_of = np.unique(prefixes, return_inverse=True)
        return Groups(group_of, names.tolist(), "type, from its identifier")
    identifiers = graph.relations.identifiers.to_pylist()
    if all(name.startswith("/") for name in identifiers):
        return _most_frequent(
            graph, [name.split("/")[1] for name in identifiers] * 2, "domain of most of its relations"
        )
    labels = graph.relations.labels(range(len(identifiers)))
    words = [f"head of {label}" for label in labels] + [f"tail of {label}" for label in labels]
    return _most_frequent(graph, words, "where it stands most")


def _most_frequent(graph: Graph, words: list[str], what: str) -> Groups:
    """The word that most triples of an entity have, given one for each end."""
    names, word_of = np.unique(words, return_inverse=True)
    parts = []
    for side, first in (("tail", 0), ("head", len(graph.relations))):
        anchors, relations, counts = graph.known.answers(side).queries()  # type: ignore[arg-type]
        parts.append((anchors * len(names) + word_of[first + relations], counts))
    keys, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Pairs of entity and word that occur: a table of all pairs would take 10 GB for ogbl-wikikg2.
    pairs, pair_of = np.unique(keys, return_inverse=True)
    entities, used = np.divmod(pairs, len(names))
    order = np.lexsort((used, -np.bincount(pair_of, counts), entities))
    seen, first_of = np.unique(entities[order], return_index=True)
    most = np.full(len(graph.entities), -1)  # of entities without a triple, nothing is known
    most[seen] = used[order][first_of]
    return Groups(most, names.tolist(), what)
