import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transher.graph import RELATION_TYPES, Graph, Vocabulary, graph_statistics, load_graph, relation_types
from transher.graph.compositions import CONFIDENCE, composed_relations
from transher.graph.patterns import SUPPORT

Rows = Sequence[tuple[int, int, int]]
needs_data = pytest.mark.skipif("TRANSHER_DATA" not in os.environ, reason="TRANSHER_DATA names no folder of benchmarks")


def graph_of(train: Rows, valid: Rows = (), test: Rows = (), relations: int = 1) -> Graph:
    splits = [np.array(rows, dtype=np.int32).reshape(-1, 3) for rows in (train, valid, test)]
    count = int(max(splits[i][:, [0, 2]].max(initial=-1) for i in range(3))) + 1
    return Graph(
        "some",
        Vocabulary("entity", pa.array([f"e{i:03}" for i in range(count)])),
        Vocabulary(
            "relation",
            pa.array([f"r{i}" for i in range(relations)]),
            pa.array(["is " + "x" * i for i in range(relations)]),
        ),
        splits[0],
        splits[1],
        splits[2],
    )


def test_a_relation_s_type_is_by_its_average_tails_and_heads_over_all_splits() -> None:
    one_to_one = [(i, 0, i + 50) for i in range(3)]
    one_to_many = [(0, 1, i) for i in range(3)]
    many_to_one = [(i, 2, 0) for i in range(3)]
    just_many = [(1, 3, 2), (1, 3, 3), (4, 3, 3)]  # 3 triples of 2 heads: 1.5 tails a head, 1.5 heads a tail
    train = one_to_one + one_to_many[:1] + many_to_one + just_many
    graph = graph_of(train, one_to_many[1:], one_to_one[:1] * 5, relations=5)
    assert [RELATION_TYPES[code] for code in relation_types(graph)] == [
        "1-to-1", "1-to-N", "N-to-1", "N-to-N", "1-to-1",
    ]  # fmt: skip


def test_degrees_sizes_duplicates_and_overlaps_are_counted() -> None:
    statistics = graph_statistics(graph_of([(0, 0, 1), (0, 0, 2), (0, 0, 1)], [(3, 0, 0)], [(0, 0, 1), (4, 1, 0)], 2))
    assert statistics.triples == {"train": 3, "valid": 1, "test": 2}
    assert statistics.duplicate_triples == {"train": 1, "valid": 0, "test": 0}
    assert statistics.overlaps == {"train/valid": 0, "train/test": 1, "valid/test": 0}
    assert (statistics.degree.minimum, statistics.degree.median, statistics.degree.maximum) == (1, 1, 4)
    assert statistics.degree.mean == pytest.approx(8 / 5)
    assert statistics.out_degree.maximum == 2
    assert (statistics.unseen_entities, statistics.unseen_relations) == (2, 1)


def test_leakage_tells_same_inverse_and_any_relation_apart() -> None:
    train = [(i, 0, i + 20) for i in range(10)] + [(i + 20, 1, i) for i in range(10)]
    train += [(40, 0, 41), (42, 2, 43), (44, 2, 45)]
    test = [(41, 0, 40), (41, 1, 40), (43, 0, 42), (45, 2, 46)]
    leakage = graph_statistics(graph_of(train, test=test, relations=3)).leakage
    assert leakage.same_relation == 0.25  # (41, 0, 40)
    assert leakage.inverse_relation == 0.25  # (41, 1, 40)
    assert leakage.any_relation == 0.75


def test_symmetric_inverse_duplicate_and_composed_relations_are_found_by_name() -> None:
    married = [(i, 0, i + 30) for i in range(8)]
    married += [(t, r, h) for h, r, t in married]
    born = [(i, 1, 60 + i % 6) for i in range(30)]
    city_in = [(60 + i, 2, 70 + i % 2) for i in range(6)]
    citizen = [(i, 3, 70 + i % 6 % 2) for i in range(28)]
    birthplace_of = [(t, 4, h) for h, _, t in born]
    statistics = graph_statistics(graph_of(married + born + city_in + citizen + birthplace_of, relations=5))
    assert [(rule.premises, rule.support, rule.confidence) for rule in statistics.symmetric] == [(("is ",), 16, 1)]
    assert {(*rule.premises, rule.conclusion) for rule in statistics.inverse} == {
        ("is x", "is xxxx"),
        ("is xxxx", "is x"),
    }
    composed = {(*rule.premises, rule.conclusion): rule for rule in statistics.composed}
    rule = composed["is x", "is xx", "is xxx"]
    assert (rule.support, rule.confidence) == (28, 28 / 30)
    assert statistics.duplicate == []


def test_statistics_are_json() -> None:
    statistics = graph_statistics(graph_of([(i, 0, i + 9) for i in range(9)] + [(i + 9, 0, i) for i in range(9)]))
    assert json.loads(json.dumps(statistics.to_dict()))["symmetric"][0]["support"] == 18


def test_a_graph_without_test_triples_has_figures_too() -> None:
    assert graph_statistics(graph_of([(0, 0, 1)])).leakage.any_relation == 0


@given(st.integers(0, 10_000))
def test_compositions_of_a_small_graph_are_counted_as_by_hand(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, [9, 3, 9], size=(seed % 90, 3))
    triples = np.unique(rows, axis=0).astype(np.int32)
    facts = {r: {(h, t) for h, s, t in triples.tolist() if s == r and h != t} for r in range(3)}
    expected = {}
    for first, second, conclusion in itertools.product(range(3), repeat=3):
        paths = {(a, c) for a, b in facts[first] for d, c in facts[second] if b == d and a != c}
        support = len(paths & facts[conclusion])
        if support >= SUPPORT and support >= CONFIDENCE * len(paths):
            expected[first, second, conclusion] = (support, support / len(paths))
    rules = composed_relations(triples, 9, 3)
    found = zip(*(column.tolist() for column in rules), strict=True)
    assert {(a, b, c): (support, confidence) for a, b, c, support, confidence in found} == expected


@needs_data
def test_fb15k_237_has_the_figures_that_are_known_of_it() -> None:
    statistics = graph_statistics(load_graph(Path(os.environ["TRANSHER_DATA"]) / "FB15k-237"))
    # Its makers took out of the test every pair of entities that a training triple joins.
    assert statistics.leakage.any_relation == 0
    assert sum(kind["triples"] for kind in statistics.relation_types.values()) == 310_116
    assert statistics.relation_types["N-to-N"]["relations"] == 113
    assert any(
        rule.premises == ("/people/person/place_of_birth", "/base/biblioness/bibs_location/country")
        and rule.conclusion == "/people/person/nationality"
        for rule in statistics.composed
    )
