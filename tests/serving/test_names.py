"""Search of names against a plain search."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transher.graph.vocabulary import Vocabulary
from transher.serving.names import NameIndex, fold

NAMES = ["Paris", "Paris", "parish", "Île-de-France", "São Paulo", "New York City", "York", "日本", "", "a\tb"]


@pytest.fixture(scope="module")
def index() -> NameIndex:
    identifiers = pa.array([f"Q{i}" for i in range(len(NAMES))])
    return NameIndex(Vocabulary("entity", identifiers, pa.array(NAMES)), np.arange(len(NAMES)))


def test_the_very_name_comes_before_longer_ones_and_the_weightier_first(index: NameIndex) -> None:
    assert index.search("paris", 5)[:3] == [1, 0, 2]


def test_a_word_within_a_name_is_found(index: NameIndex) -> None:
    assert set(index.search("york", 5)) == {6, 5}


def test_letters_may_be_swapped(index: NameIndex) -> None:
    assert index.search("sao palo", 1) == [4]
    assert index.search("ile de franec", 1) == [3]


def test_names_in_other_scripts_are_found(index: NameIndex) -> None:
    assert index.search("日", 1) == [7]


def test_find_takes_identifier_label_and_name(index: NameIndex) -> None:
    assert index.find("Q1") == [1]
    assert index.find("Paris (Q0)") == [0]
    assert index.find("Paris") == [0, 1]
    assert index.find("île-de-france") == [3]
    assert index.find("nothing") == []


def test_an_empty_vocabulary_finds_nothing() -> None:
    empty = NameIndex(Vocabulary("entity", pa.array([], pa.string())), np.zeros(0, np.int64))
    assert empty.search("abc", 3) == []


@pytest.mark.parametrize("name", ["´", "℡", "ΑΣ", "İ", " a", "Ǆ", "ſ", "a\u0345"])
def test_signs_that_change_when_they_are_folded_are_found(name: str) -> None:
    index = NameIndex(Vocabulary("entity", pa.array(["\x01"]), pa.array([name])), np.zeros(1, np.int64))
    assert fold(fold(name)) == fold(name)
    assert index.search(name, 1) == ([0] if fold(name) else [])


@given(st.text(max_size=30))
def test_no_text_breaks_the_search(index: NameIndex, text: str) -> None:
    assert len(index.search(text, 4)) <= 4
    index.find(text)


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), min_size=1, max_size=30), st.data())
def test_every_beginning_is_found(names: list[str], data: st.DataObject) -> None:
    vocabulary = Vocabulary("entity", pa.array([f"\x01{i}" for i in range(len(names))]), pa.array(names))
    index = NameIndex(vocabulary, np.zeros(len(names), np.int64))
    chosen = data.draw(st.integers(0, len(names) - 1))
    beginning = fold(names[chosen])
    if beginning:
        assert chosen in index.search(beginning, len(names))
