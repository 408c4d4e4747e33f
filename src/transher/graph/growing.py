"""A graph that grows: new triples, entities and relations, while every old id stays what it was."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transher.graph.encoding import first_occurrences, triple_keys
from transher.graph.graph import Graph, Triples
from transher.graph.vocabulary import Vocabulary


@dataclass(frozen=True)
class Growth:
    """The grown graph, and what is new about it: its ids from `old_entities` and `old_relations` on."""

    graph: Graph
    added: Triples  # (n, 3), at the end of the training triples
    old_entities: int
    old_relations: int
    already_known: int  # given triples that some split had, or that were given twice

    @property
    def new_entities(self) -> int:
        return len(self.graph.entities) - self.old_entities

    def examples(self, count: int = 5) -> list[str]:
        """Some of the words that became entities: a slip of the pen is one too."""
        return list(self.graph.entities.identifiers[self.old_entities :][:count].to_pylist())

    @property
    def new_relations(self) -> int:
        return len(self.graph.relations) - self.old_relations


def grow(graph: Graph, triples: pa.Table) -> Growth:
    """Add triples (columns head, relation, tail, in identifiers, labels or names: see `Lookup.known`) to the training
    triples. A word that means nothing in the graph is a new entity or relation, and its own identifier; one that means
    several things is an error. New ids follow the old ones, sorted among themselves. A triple that validation or test
    has stays there, lest the test be given away."""
    entity_words = pa.chunked_array([*_strings(triples["head"]).chunks, *_strings(triples["tail"]).chunks], pa.string())
    entities, entity_ids = _extend(graph.entities, entity_words)
    relations, relation_ids = _extend(graph.relations, _strings(triples["relation"]))
    count = len(triples)
    given = np.stack([entity_ids[:count], relation_ids, entity_ids[count:]], axis=1).astype(np.int32)
    sizes = len(entities), len(relations)
    keys = triple_keys(given, *sizes)
    new = first_occurrences(keys) & ~np.isin(keys, triple_keys(graph.all_triples, *sizes))
    added = given[new]
    weights = graph.train_weights
    if weights is not None:
        weights = np.concatenate([weights, np.ones(len(added), dtype=np.float32)])
    grown = replace(
        graph,
        prepared=None,
        entities=entities,
        relations=relations,
        train=np.concatenate([graph.train, added]),
        train_weights=weights,
        entity_types=_types(graph, added, len(entities)),
        load_report=None,
    )
    return Growth(grown, added, len(graph.entities), len(graph.relations), int((~new).sum()))


def without(graph: Graph, triples: Triples) -> Graph:
    """The graph without some of its triples (n, 3), whichever split has them. Entities and relations stay."""
    sizes = len(graph.entities), len(graph.relations)
    unwanted = triple_keys(triples, *sizes)

    def kept(split: Triples) -> NDArray[np.bool_]:
        return ~np.isin(triple_keys(split, *sizes), unwanted)

    trained, weights = kept(graph.train), graph.train_weights
    return replace(
        graph,
        prepared=None,
        train=graph.train[trained],
        train_weights=None if weights is None else weights[trained],
        valid=graph.valid[kept(graph.valid)],
        test=graph.test[kept(graph.test)],
    )


def _strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string())


def _extend(vocabulary: Vocabulary, words: pa.ChunkedArray) -> tuple[Vocabulary, NDArray[np.int64]]:
    """The vocabulary with the words that it lacks, and the id of each word (n,)."""
    encoded = words.combine_chunks().dictionary_encode()
    distinct = encoded.dictionary
    ids = vocabulary.known(distinct)
    missing = np.flatnonzero(ids < 0)
    fresh = distinct.take(pa.array(missing))
    order = pc.array_sort_indices(fresh).to_numpy()
    ids[missing[order]] = len(vocabulary) + np.arange(len(missing))
    return _appended(vocabulary, fresh.take(pa.array(order))), ids[encoded.indices.to_numpy()]


def _appended(vocabulary: Vocabulary, fresh: pa.StringArray) -> Vocabulary:
    nothing = pa.nulls(len(fresh), pa.string())
    identifiers, names, descriptions = (
        None if old is None else pa.concat_arrays([old, new])
        for old, new in (
            (vocabulary.identifiers, fresh),
            (vocabulary.names, nothing),
            (vocabulary.descriptions, nothing),
        )
    )
    return Vocabulary(vocabulary.kind, identifiers, names, descriptions)


def _types(graph: Graph, added: Triples, entity_count: int) -> NDArray[np.int32] | None:
    """Types of all entities. A new one gets the type that is most frequent where it first occurs; 0 if no old one is
    there."""
    if graph.entity_types is None:
        return None
    old = len(graph.entities)
    types = np.concatenate([graph.entity_types, np.full(entity_count - old, -1, dtype=np.int32)])
    for triple in added:
        for column in (0, 2):
            if types[triple[column]] < 0:
                there = graph.train[graph.train[:, 1] == triple[1], column]
                types[triple[column]] = np.bincount(graph.entity_types[there]).argmax() if len(there) else 0
    return types.astype(np.int32)
