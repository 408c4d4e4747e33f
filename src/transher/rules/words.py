"""Rules in words, and what in the graph makes a rule predict a triple."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transher.graph.graph import Graph
from transher.graph.known import KnownTriples
from transher.kernels.rules import BODY, NONE, Column
from transher.rules.rules import Rules

_VARIABLES = ("x", "z", "w")  # and y at the end
_FOUND = 200  # paths, after which no more are looked for


class ToldRule(NamedTuple):
    """A rule for people and programs."""

    kind: str  # "closed" or "constant"
    relation: str
    rule: str
    support: int
    pairs: int
    sampled: bool
    confidence: float


def told_rules(graph: Graph, rules: Rules, relation: int | None = None, most: int = 20) -> list[ToldRule]:
    """The most confident rules, of one relation or of all."""
    rows, sure = rules.rows, rules.confidences
    chosen = np.arange(len(rows))
    if relation is not None:
        chosen = np.flatnonzero(rows[:, Column.END] % max(1, rules.relation_count) == relation)
    # Of equally confident ones those that hold more often first.
    order = chosen[np.lexsort((-rows[chosen, Column.SUPPORT], -sure[chosen]))][:most]
    return [
        ToldRule(
            "closed" if row[Column.ANSWER] == NONE else "constant",
            graph.relations.label(int(row[Column.END]) % rules.relation_count),
            rule_in_words(graph, row),
            int(row[Column.SUPPORT]),
            int(row[Column.PAIRS]),
            bool(row[Column.SAMPLED]),
            float(confidence),
        )
        for row, confidence in zip(rows[order], sure[order], strict=True)
    ]


def rule_in_words(graph: Graph, rule: Sequence[int]) -> str:
    """As "x borders y ⇐ y borders x", or "x speaks English ⇐ x lies in England"."""
    row = [int(value) for value in rule]
    body = [end for end in row[BODY] if end != NONE]
    if row[Column.ANSWER] == NONE:
        places = (*_VARIABLES[: len(body)], "y")
        parts = [_step(graph, places[i], end, places[i + 1]) for i, end in enumerate(body)]
        return f"{_step(graph, 'x', row[Column.END], 'y')} ⇐ {', '.join(parts)}"
    names = graph.entities
    value = "anything" if row[Column.VALUE] == NONE else names.label(row[Column.VALUE])
    conclusion = _step(graph, "x", row[Column.END], names.label(row[Column.ANSWER]))
    return f"{conclusion} ⇐ {_step(graph, 'x', body[0], value)}"


def groundings(
    known: KnownTriples, rule: Sequence[int], triple: Sequence[int], most: int = 3
) -> list[list[tuple[int, int, int]]]:
    """Up to so many ways in which a rule's body holds for a triple: the triples of each, in the rule's order."""
    row = [int(value) for value in rule]
    head, _, tail = (int(value) for value in triple)
    body = [end for end in row[BODY] if end != NONE]
    if row[Column.ANSWER] != NONE:
        x = head if row[Column.END] < known.relation_count else tail
        values = _targets(known, x, body[0])
        if row[Column.VALUE] != NONE:
            values = values[values == row[Column.VALUE]]
        return [[_triple(known, x, body[0], int(value))] for value in values[values != x][:most]]
    found = []
    for path in _paths(known, body, head, tail):
        found.append([_triple(known, path[i], end, path[i + 1]) for i, end in enumerate(body)])
        if len(found) == most:
            break
    return found


def grounding_in_words(graph: Graph, grounding: Sequence[tuple[int, int, int]]) -> str:
    """As "England borders Scotland, Scotland speaks English"."""
    return ", ".join(fact_in_words(graph, *triple) for triple in grounding)


def fact_in_words(graph: Graph, head: int, relation: int, tail: int) -> str:
    one, other = graph.entities.labels([head, tail])
    return f"{one} {graph.relations.label(relation)} {other}"


def _step(graph: Graph, source: str, end: int, target: str) -> str:
    """A step as the triple that it walks, which may be the other way round."""
    count = len(graph.relations)
    name = graph.relations.label(end % count)
    return f"{source} {name} {target}" if end < count else f"{target} {name} {source}"


def _triple(known: KnownTriples, source: int, end: int, target: int) -> tuple[int, int, int]:
    count = known.relation_count
    return (source, end, target) if end < count else (target, end - count, source)


def _targets(known: KnownTriples, entity: int, end: int) -> NDArray[np.int32]:
    side, relation = ("tail", end) if end < known.relation_count else ("head", end - known.relation_count)
    _, answers = known.answers(side).of(np.array([entity]), np.array([relation]))  # type: ignore[arg-type]
    return answers


def _paths(known: KnownTriples, body: Sequence[int], head: int, tail: int) -> list[tuple[int, ...]]:
    """Simple paths over a body from head to tail, over the first entities of each step."""
    turned = [(end + known.relation_count) % (2 * known.relation_count) for end in body]
    if len(body) == 1:
        return [(head, tail)] if tail in _targets(known, head, body[0]) and head != tail else []
    last = _targets(known, tail, turned[-1])
    first = _targets(known, head, body[0])
    apart = (head, tail)
    if len(body) == 2:
        return [(head, int(one), tail) for one in np.intersect1d(first, last) if int(one) not in apart]
    found: list[tuple[int, ...]] = []
    # From the side with fewer steps, as far as a person would look.
    forwards = len(first) <= len(last)
    near, far = (first, last) if forwards else (last, first)
    middle = body[1] if forwards else turned[1]
    for one in near.tolist():
        if one in apart:
            continue
        others = np.intersect1d(_targets(known, one, middle), far)
        pairs = [(one, int(other)) for other in others if int(other) not in (*apart, one)]
        found += [(head, *(pair if forwards else pair[::-1]), tail) for pair in pairs]
        if len(found) >= _FOUND:
            break
    return found
