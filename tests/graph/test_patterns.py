import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transher.graph import Triples
from transher.graph.patterns import CONFIDENCE, SUPPORT, Implications, duplicate_relations, inverse_relations

Counts = dict[tuple[int, int], tuple[int, float]]  # support and confidence of each pair of relations
rows = st.integers(0, 10_000).map(
    lambda seed: np.random.default_rng(seed).integers(0, [6, 3, 6], size=(seed % 120, 3)).astype(np.int32)
)


def found(rules: Implications) -> Counts:
    return {
        (r1, r2): (support, round(confidence, 9))
        for r1, r2, support, confidence in zip(*(column.tolist() for column in rules), strict=True)
    }


def expected(triples: Triples, turned: bool) -> Counts:
    facts = {relation: {(h, t) for h, r, t in triples.tolist() if r == relation} for relation in range(3)}
    rules = {}
    for one, pairs in facts.items():
        pairs = {(h, t) for h, t in pairs if not turned or h != t}
        for other in facts:
            if not turned and one == other:
                continue
            support = sum(((t, h) if turned else (h, t)) in facts[other] for h, t in pairs)
            if support >= SUPPORT and support / len(pairs) >= CONFIDENCE:
                rules[one, other] = (support, round(support / len(pairs), 9))
    return rules


@given(rows)
def test_rules_between_relations_are_counted_as_by_hand(triples: Triples) -> None:
    assert found(duplicate_relations(triples, 6, 3)) == expected(triples, turned=False)
    assert found(inverse_relations(triples, 6, 3)) == expected(triples, turned=True)


def test_a_symmetric_relation_is_its_own_inverse() -> None:
    half = np.array([(i, 0, i + 10) for i in range(8)], dtype=np.int32)
    rules = inverse_relations(np.concatenate([half, half[:, [2, 1, 0]]]), 20, 1)
    assert found(rules) == {(0, 0): (16, 1.0)}
