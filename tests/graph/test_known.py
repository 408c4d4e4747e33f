import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from transher.graph import Side, Triples, known
from transher.graph.known import KnownAnswers, KnownTriples

ENTITIES, RELATIONS = 7, 3
some_triples = st.lists(
    st.tuples(st.integers(0, ENTITIES - 1), st.integers(0, RELATIONS - 1), st.integers(0, ENTITIES - 1)),
    max_size=40,
).map(lambda rows: np.array(rows, dtype=np.int32).reshape(-1, 3))


def expected_answers(triples: Triples, anchor: int, relation: int, side: Side) -> list[int]:
    anchor_column, answer_column = (0, 2) if side == "tail" else (2, 0)
    return sorted({int(row[answer_column]) for row in triples if row[anchor_column] == anchor and row[1] == relation})


@pytest.mark.parametrize("wide_keys", [False, True])
@pytest.mark.parametrize("side", ["head", "tail"])
@given(
    triples=some_triples,
    queries=hnp.arrays(np.int32, st.tuples(st.integers(0, 12), st.just(2)), elements=st.integers(0, 2)),
)
def test_every_query_gets_its_distinct_answers_in_order(
    side: Side, wide_keys: bool, triples: Triples, queries: NDArray[np.int32]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if wide_keys:  # as if the graph were too large for a triple to fit into one integer
            patch.setattr(known, "_LARGEST_KEY", 0)
        index = KnownAnswers(triples, ENTITIES, RELATIONS, side)
    offsets, answers = index.of(queries[:, 0], queries[:, 1])
    assert offsets.dtype == np.int64
    assert answers.dtype == np.int32
    assert len(offsets) == len(queries) + 1
    for i, (anchor, relation) in enumerate(queries):
        assert answers[offsets[i] : offsets[i + 1]].tolist() == expected_answers(triples, anchor, relation, side)
    assert index.counts(queries[:, 0], queries[:, 1]).tolist() == np.diff(offsets).tolist()


def test_the_index_of_no_triples_answers_nothing() -> None:
    offsets, answers = KnownAnswers(np.zeros((0, 3), np.int32), 5, 2, "tail").of(np.array([1, 4]), np.array([0, 1]))
    assert offsets.tolist() == [0, 0, 0]
    assert len(answers) == 0


def test_the_triples_are_left_as_they_were() -> None:
    triples = np.array([[3, 1, 2], [0, 0, 1]], dtype=np.int32)
    before = triples.copy()
    KnownAnswers(triples, 4, 2, "head")
    assert (triples == before).all()


def test_a_million_triples_are_indexed_within_seconds_and_twelve_bytes_each() -> None:
    generator = np.random.default_rng(0)
    triples = generator.integers(0, [100_000, 500, 100_000], size=(1_000_000, 3)).astype(np.int32)
    start = time.process_time()
    index = KnownAnswers(triples, 100_000, 500, "tail")
    assert time.process_time() - start < 5
    assert index._sorted_keys.nbytes + index.answers.nbytes <= 12 * len(triples)


@given(triples=some_triples)
def test_many_queries_at_once_find_what_few_find(triples: Triples) -> None:
    index = KnownAnswers(triples, ENTITIES, RELATIONS, "tail")
    few = index.ranges(triples[:, 0], triples[:, 1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "_MANY_QUERIES", 0)
        many = index.ranges(triples[:, 0], triples[:, 1])
    assert [part.tolist() for part in many] == [part.tolist() for part in few]


@given(triples=some_triples)
def test_known_triples_are_found_by_every_part(triples: Triples) -> None:
    known = KnownTriples(triples, ENTITIES, RELATIONS)
    distinct = {tuple(triple) for triple in triples.tolist()}
    grid = np.stack(np.meshgrid(*map(np.arange, (ENTITIES, RELATIONS, ENTITIES)), indexing="ij"), -1).reshape(-1, 3)
    assert {tuple(triple) for triple in grid[known.has(grid)].tolist()} == distinct
    assert len(known) == len(distinct)
    for entity in range(ENTITIES):
        _, ends, targets = known.steps(np.array([entity]))
        walked = [(entity, end, other) if end < RELATIONS else (other, end - RELATIONS, entity)
                  for end, other in zip(ends.tolist(), targets.tolist(), strict=True)]  # fmt: skip
        assert sorted(walked) == sorted(
            [triple for triple in distinct if triple[0] == entity]
            + [triple for triple in distinct if triple[2] == entity]
        )
        assert known.degrees[entity] == len(walked)
        for other in range(ENTITIES):
            assert known.between(entity, other).tolist() == sorted(
                relation for head, relation, tail in distinct if (head, tail) == (entity, other)
            )
    for end in range(2 * RELATIONS):
        sources, targets = (part.tolist() for part in known.edges(end))
        heads, tails = (sources, targets) if end < RELATIONS else (targets, sources)
        assert sources == sorted(sources)
        assert {(head, end % RELATIONS, tail) for head, tail in zip(heads, tails, strict=True)} == {
            triple for triple in distinct if triple[1] == end % RELATIONS
        }
    assert known.relation_counts.sum() == len(distinct)
    assert known.has_loops.tolist() == [any(h == t and r == s for h, s, t in distinct) for r in range(RELATIONS)]


def test_all_parts_of_the_index_take_some_forty_bytes_a_triple() -> None:
    generator = np.random.default_rng(0)
    triples = generator.integers(0, [10_000, 50, 10_000], size=(100_000, 3)).astype(np.int32)
    known = KnownTriples(triples, 10_000, 50)
    parts = [known.answers("tail"), known.answers("head")]
    held = sum(part._sorted_keys.nbytes + part.answers.nbytes for part in parts)
    held += sum(array.nbytes for array in known._by_end)
    assert held <= 41 * len(triples)
