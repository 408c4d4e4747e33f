"""What a graph is like: sizes, degrees, kinds of relations, and how far its test is given away."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transher.graph.compositions import composed_relations
from transher.graph.encoding import triple_keys
from transher.graph.graph import SPLITS, Graph, Split, Triples
from transher.graph.patterns import Implications, duplicate_relations, inverse_relations
from transher.graph.ragged import expand_ranges, ranges_of

RELATION_TYPES = ("1-to-1", "1-to-N", "N-to-1", "N-to-N")  # of heads to tails
MANY = 1.5  # a side is N from so many on average


@dataclass(frozen=True)
class Spread:
    """How unequal some counts are."""

    minimum: int
    median: float
    mean: float
    p90: float
    maximum: int


@dataclass(frozen=True)
class Rule:
    """Relations that together imply another, by their labels. An inverse's conclusion holds from tail to head."""

    premises: tuple[str, ...]
    conclusion: str
    support: int  # pairs of entities for which premises and conclusion hold
    confidence: float  # support over the pairs for which the premises hold


@dataclass(frozen=True)
class Leakage:
    """Shares of test triples (h, r, t) with a training triple from t to h."""

    same_relation: float  # (t, r, h)
    inverse_relation: float  # (t, r2, h), where r2 is a detected inverse of r or r of r2
    any_relation: float


@dataclass(frozen=True)
class GraphStatistics:
    """All of a graph's figures; `to_dict` gives them as JSON can hold them."""

    name: str
    entities: int
    relations: int
    triples: dict[Split, int]
    degree: Spread  # triples per entity, at either end, over all splits
    out_degree: Spread  # as a head
    in_degree: Spread  # as a tail
    relation_types: dict[str, dict[str, int]]  # by type: how many relations and triples are of it
    symmetric: list[Rule]
    inverse: list[Rule]
    duplicate: list[Rule]
    composed: list[Rule]
    duplicate_triples: dict[Split, int]  # triples that repeat one of their split
    overlaps: dict[str, int]  # "train/test": distinct triples that stand in both
    leakage: Leakage
    unseen_entities: int  # without a training triple
    unseen_relations: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def relation_types(graph: Graph) -> NDArray[np.int8]:
    """Each relation's type as a position in `RELATION_TYPES`: (relations,).

    Tails are N where there are on average at least 1.5 triples per distinct (head, relation), over all splits; heads
    where there are as many per distinct (tail, relation).
    """
    triples = _distinct(graph)
    many_tails = _triples_per(triples[:, 0], triples[:, 1], len(graph.relations)) >= MANY
    many_heads = _triples_per(triples[:, 2], triples[:, 1], len(graph.relations)) >= MANY
    return (2 * many_heads.astype(np.int8) + many_tails).astype(np.int8)


def graph_statistics(graph: Graph) -> GraphStatistics:
    """Everything about a graph that decides how hard it is. FB15k-237 takes some seconds."""
    triples = _distinct(graph)
    size = len(graph.entities), len(graph.relations)
    labels = graph.relations.labels(range(size[1]))
    types = relation_types(graph)
    triples_of = np.bincount(triples[:, 1], minlength=size[1])
    heads = np.bincount(triples[:, 0], minlength=size[0])
    tails = np.bincount(triples[:, 2], minlength=size[0])
    inverses = inverse_relations(triples, *size)
    compositions = composed_relations(triples, *size)
    keys = {split: np.unique(triple_keys(graph.split(split), *size)) for split in SPLITS}
    overlaps = {
        f"{one}/{other}": len(np.intersect1d(keys[one], keys[other], assume_unique=True))
        for one, other in combinations(SPLITS, 2)
    }
    seen_entities = np.union1d(graph.train[:, 0], graph.train[:, 2])
    return GraphStatistics(
        name=graph.name,
        entities=size[0],
        relations=size[1],
        triples={split: len(graph.split(split)) for split in SPLITS},
        degree=_spread(heads + tails),
        out_degree=_spread(heads),
        in_degree=_spread(tails),
        relation_types={
            name: {"relations": int((types == code).sum()), "triples": int(triples_of[types == code].sum())}
            for code, name in enumerate(RELATION_TYPES)
        },
        symmetric=[rule for rule in _rules(inverses, labels) if rule.premises == (rule.conclusion,)],
        inverse=[rule for rule in _rules(inverses, labels) if rule.premises != (rule.conclusion,)],
        duplicate=_rules(duplicate_relations(triples, *size), labels),
        composed=[
            Rule((labels[first], labels[second]), labels[conclusion], support, confidence)
            for first, second, conclusion, support, confidence in zip(
                *(column.tolist() for column in compositions), strict=True
            )
        ],
        duplicate_triples={split: len(graph.split(split)) - len(keys[split]) for split in SPLITS},
        overlaps=overlaps,
        leakage=_leakage(graph, inverses),
        unseen_entities=size[0] - len(seen_entities),
        unseen_relations=size[1] - len(np.unique(graph.train[:, 1])),
    )


def _distinct(graph: Graph) -> Triples:
    keys = triple_keys(graph.all_triples, len(graph.entities), len(graph.relations))
    return graph.all_triples[np.unique(keys, return_index=True)[1]]


def _triples_per(anchors: NDArray[np.int32], relations: NDArray[np.int32], relation_count: int) -> NDArray[np.float64]:
    """Triples per distinct (anchor, relation), for each relation: (relations,), 0 where there are none."""
    triples = np.bincount(relations, minlength=relation_count)
    distinct = np.unique(anchors.astype(np.int64) * relation_count + relations)
    queries = np.bincount(distinct % relation_count, minlength=relation_count) if len(distinct) else triples
    return triples / np.maximum(queries, 1)


def _spread(counts: NDArray[np.int64]) -> Spread:
    if not len(counts):
        return Spread(0, 0.0, 0.0, 0.0, 0)
    median, p90 = np.quantile(counts, [0.5, 0.9])
    return Spread(int(counts.min()), float(median), float(counts.mean()), float(p90), int(counts.max()))


def _rules(rules: Implications, labels: list[str]) -> list[Rule]:
    return [
        Rule((labels[premise],), labels[conclusion], support, confidence)
        for premise, conclusion, support, confidence in zip(*(column.tolist() for column in rules), strict=True)
    ]


def _leakage(graph: Graph, inverses: Implications) -> Leakage:
    if not len(graph.test):
        return Leakage(0.0, 0.0, 0.0)
    entity_count, relation_count = len(graph.entities), len(graph.relations)
    train, test = graph.train.astype(np.int64), graph.test.astype(np.int64)
    pairs = train[:, 0] * entity_count + train[:, 2]
    order = np.argsort(pairs)
    starts, counts = ranges_of(pairs[order], test[:, 2] * entity_count + test[:, 0])
    _, positions = expand_ranges(starts, counts)
    asked = np.repeat(np.arange(len(test)), counts)  # which test triple each training triple answers
    relations, turned = test[asked, 1], train[order[positions], 1]
    known = [
        inverses.premises * relation_count + inverses.conclusions,
        inverses.conclusions * relation_count + inverses.premises,
    ]
    by_inverse = np.isin(relations * relation_count + turned, np.concatenate(known)) & (relations != turned)

    def share(answering: NDArray[np.bool_]) -> float:
        return len(np.unique(asked[answering])) / len(test)

    return Leakage(share(relations == turned), share(by_inverse), float((counts > 0).mean()))
