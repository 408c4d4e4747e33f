import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from transher.errors import UsageError
from transher.graph import Split, Triples, split_triples
from transher.graph.patterns import duplicate_relations, inverse_relations

ENTITIES, RELATIONS = 12, 4


@st.composite
def graphs(draw: st.DrawFn) -> Triples:
    """Distinct triples in random order, often with relations that turn others round or repeat them."""
    generator = np.random.default_rng(draw(st.integers(0, 10_000)))
    count = draw(st.integers(1, 150))
    triples = generator.integers(0, [ENTITIES, RELATIONS, ENTITIES], size=(count, 3))
    first = triples[triples[:, 1] == 0]
    if draw(st.booleans()):  # relation 1 is relation 0 turned round
        triples = np.concatenate([triples, first[:, [2, 1, 0]] + np.array([0, 1, 0])])
    if draw(st.booleans()):  # relation 2 repeats relation 0
        triples = np.concatenate([triples, first + np.array([0, 2, 0])])
    if draw(st.booleans()):  # relation 3 is symmetric
        triples = np.concatenate([triples, triples[triples[:, 1] == 3][:, [2, 1, 0]]])
    return generator.permutation(np.unique(triples, axis=0).astype(np.int32))


def related(triples: Triples) -> set[frozenset[int]]:
    """Unordered pairs of relations that give each other away, each relation with itself among them."""
    pairs = {frozenset([relation]) for relation in range(RELATIONS)}
    for rules in (
        duplicate_relations(triples, ENTITIES, RELATIONS),
        inverse_relations(triples, ENTITIES, RELATIONS),
    ):
        pairs |= {frozenset(rule) for rule in zip(rules.premises.tolist(), rules.conclusions.tolist(), strict=True)}
    return pairs


@given(graphs(), st.integers(0, 5), st.booleans())
def test_every_triple_is_in_one_split_and_everything_can_be_learned(
    triples: Triples, seed: int, keep_leaks: bool
) -> None:
    positions = split_triples(triples, ENTITIES, RELATIONS, seed=seed, keep_inverse_leaks=keep_leaks)
    assert sorted(np.concatenate(list(positions.values())).tolist()) == list(range(len(triples)))
    train = triples[positions["train"]]
    assert set(train[:, [0, 2]].ravel()) == set(triples[:, [0, 2]].ravel())
    assert set(train[:, 1]) == set(triples[:, 1])


@given(graphs(), st.integers(0, 5))
def test_no_triple_gives_away_one_of_another_split(triples: Triples, seed: int) -> None:
    positions = split_triples(triples, ENTITIES, RELATIONS, seed=seed, fractions=(0.4, 0.3, 0.3))
    split_of = {place: split for split, places in positions.items() for place in places.tolist()}
    families = related(triples)
    for i, (head, relation, tail) in enumerate(triples.tolist()):
        for j, (other_head, other_relation, other_tail) in enumerate(triples.tolist()):
            same_ends = {head, tail} == {other_head, other_tail}
            if same_ends and frozenset([relation, other_relation]) in families:
                assert split_of[i] == split_of[j]


@given(graphs(), st.integers(0, 5))
def test_the_split_depends_on_the_seed_and_not_on_the_order_of_triples(triples: Triples, seed: int) -> None:
    def splits(rows: Triples) -> dict[Split, set[tuple[int, ...]]]:
        positions = split_triples(rows, ENTITIES, RELATIONS, seed=seed)
        return {split: set(map(tuple, rows[places].tolist())) for split, places in positions.items()}

    assert splits(triples) == splits(triples[::-1])


def test_the_fractions_are_met_where_the_graph_allows() -> None:
    triples = np.array([(h, r, t) for h in range(30) for r in range(3) for t in range(30, 60)], dtype=np.int32)
    positions = split_triples(triples, 60, 3, fractions=(0.7, 0.2, 0.1), keep_inverse_leaks=True)
    assert [len(positions[split]) for split in ("train", "valid", "test")] == [1890, 540, 270]
    other = split_triples(triples, 60, 3, fractions=(0.7, 0.2, 0.1), keep_inverse_leaks=True, seed=1)
    assert (positions["test"] != other["test"]).any()


def test_inverses_leak_when_asked_for() -> None:
    half = np.array([(h, 0, t) for h in range(15) for t in range(15, 30)], dtype=np.int32)
    triples = np.concatenate([half, half[:, [2, 1, 0]]])
    apart = split_triples(triples, 30, 1)
    leaky = split_triples(triples, 30, 1, keep_inverse_leaks=True)

    def leaks(positions: dict[Split, NDArray[np.int64]]) -> int:
        train = set(map(tuple, triples[positions["train"]].tolist()))
        return sum((t, r, h) in train for h, r, t in triples[positions["test"]].tolist())

    assert leaks(apart) == 0
    assert leaks(leaky) > 10


def test_a_tree_has_nothing_to_spare() -> None:
    triples = np.array([(i, 0, i + 1) for i in range(9)], dtype=np.int32)
    positions = split_triples(triples, 10, 1)
    assert {0, 8} <= set(positions["train"].tolist())
    assert len(positions["valid"]) + len(positions["test"]) <= 4


@settings(max_examples=20)
@given(st.tuples(st.floats(-1, 2), st.floats(-1, 2), st.floats(-1, 2)))
def test_fractions_that_are_no_shares_are_refused(fractions: tuple[float, float, float]) -> None:
    triples = np.array([(0, 0, 1)], dtype=np.int32)
    if min(fractions) < 0 or fractions[0] <= 0 or abs(sum(fractions) - 1) > 1e-6:
        with pytest.raises(UsageError, match="add up to 1"):
            split_triples(triples, 2, 1, fractions=fractions)
    else:
        split_triples(triples, 2, 1, fractions=fractions)
