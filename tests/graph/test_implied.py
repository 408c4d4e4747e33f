"""What follows from known facts along relations such as *is a*."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transher.graph.implied import Implied
from transher.graph.known import KnownTriples

ENTITIES, RELATIONS = 8, 3
IS_A = 2

triple = st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1))


def follows(known: set[tuple[int, int, int]], head: int, relation: int, tail: int) -> bool:
    """By walking, one step at a time, from every known answer."""
    waiting = [end for start, kind, end in known if (start, kind) == (head, relation)]
    seen: set[int] = set()
    while waiting:
        place = waiting.pop()
        steps = {end for start, kind, end in known if (start, kind) == (place, IS_A)} - seen
        seen |= steps
        waiting += steps
    return tail in seen


@given(st.sets(triple, max_size=25))
def test_a_fact_follows_if_a_path_leads_to_it_from_a_known_answer(known: set[tuple[int, int, int]]) -> None:
    triples = np.array(sorted(known), np.int32).reshape(-1, 3)
    implied = Implied(KnownTriples(triples, ENTITIES, RELATIONS), [IS_A])
    asked = np.array([(h, r, t) for h in range(ENTITIES) for r in range(RELATIONS) for t in range(ENTITIES)], np.int32)
    expected = [follows(known, *each) for each in asked.tolist()]
    assert implied.has(asked).tolist() == expected
    for relation in range(RELATIONS):
        counts = np.zeros(ENTITIES, np.int64)
        for (head, kind, tail), held in zip(asked.tolist(), expected, strict=True):
            counts[tail] += held and kind == relation and (head, kind, tail) not in known
        assert implied.counts(np.arange(ENTITIES), relation).tolist() == counts.tolist()


def test_nothing_follows_along_no_relation() -> None:
    triples = np.array([[0, 0, 1], [1, IS_A, 2]], np.int32)
    assert not Implied(KnownTriples(triples, 3, 3), []).has(np.array([[0, 0, 2]])).any()
