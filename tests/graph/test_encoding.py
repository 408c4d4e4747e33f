import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transher.errors import TransherError
from transher.graph.encoding import SpelledTriples, encode, first_occurrences, triple_keys

words = st.text(st.characters(exclude_categories=["Z", "C"]), max_size=3)


@given(st.lists(st.lists(st.tuples(words, words, words), max_size=5), max_size=4))
def test_ids_are_positions_among_the_sorted_words(blocks: list[list[tuple[str, str, str]]]) -> None:
    spelled = SpelledTriples()
    for block in blocks:
        spelled.append(*(pa.array([triple[column] for triple in block], pa.string()) for column in range(3)))
    entities, relations, (triples,) = encode([spelled])
    rows = [triple for block in blocks for triple in block]
    assert entities.to_pylist() == sorted({word for h, _, t in rows for word in (h, t)}, key=str.encode)
    assert relations.to_pylist() == sorted({r for _, r, _ in rows}, key=str.encode)
    assert [(entities[h].as_py(), relations[r].as_py(), entities[t].as_py()) for h, r, t in triples.tolist()] == rows


@given(st.lists(st.integers(0, 9)))
def test_the_first_of_each_key_is_marked(keys: list[int]) -> None:
    marks = first_occurrences(np.array(keys, dtype=np.int64))
    assert marks.tolist() == [key not in keys[:place] for place, key in enumerate(keys)]


def test_keys_that_would_not_fit_are_refused() -> None:
    with pytest.raises(TransherError, match="too many"):
        triple_keys(np.zeros((1, 3), dtype=np.int32), 2**31 - 1, 100)
