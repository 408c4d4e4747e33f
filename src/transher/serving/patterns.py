"""Patterns of each relation: what it implies and what implies it, found once for the whole graph."""

from __future__ import annotations

from typing import NamedTuple

from transher.graph.compositions import composed_relations
from transher.graph.graph import Graph
from transher.graph.patterns import duplicate_relations, inverse_relations


class FoundPattern(NamedTuple):
    kind: str
    premises: tuple[int, ...]
    conclusion: int
    support: int
    confidence: float


def relation_patterns(graph: Graph) -> dict[int, list[FoundPattern]]:
    """By relation, every rule that it is part of, strongest first."""
    triples, size = graph.all_triples, (len(graph.entities), len(graph.relations))
    found: list[FoundPattern] = []
    for premise, conclusion, support, confidence in zip(*inverse_relations(triples, *size), strict=True):
        kind = "symmetric" if premise == conclusion else "inverse"
        found.append(FoundPattern(kind, (int(premise),), int(conclusion), int(support), float(confidence)))
    for premise, conclusion, support, confidence in zip(*duplicate_relations(triples, *size), strict=True):
        found.append(FoundPattern("duplicate", (int(premise),), int(conclusion), int(support), float(confidence)))
    for one, two, conclusion, support, confidence in zip(*composed_relations(triples, *size), strict=True):
        found.append(FoundPattern("composed", (int(one), int(two)), int(conclusion), int(support), float(confidence)))
    order = {"symmetric": 0, "inverse": 1, "duplicate": 2, "composed": 3}
    found.sort(key=lambda pattern: (order[pattern.kind], -pattern.confidence, -pattern.support))
    by_relation: dict[int, list[FoundPattern]] = {}
    for pattern in found:
        for relation in {*pattern.premises, pattern.conclusion}:
            by_relation.setdefault(relation, []).append(pattern)
    return by_relation
