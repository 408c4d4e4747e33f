import numpy as np
import pyarrow as pa
import pytest

from transher.errors import UsageError
from transher.graph import Vocabulary

cities = Vocabulary(
    "entity",
    pa.array(["Q142", "Q5", "Q830149", "Q90", "Q91"]),
    pa.array(["France", None, "Paris", "Paris", "Q5"]),
    pa.array([None, None, "city in Texas", "capital of France", None]),
)


def test_a_label_is_the_name_and_has_the_identifier_only_where_the_name_is_not_enough() -> None:
    assert cities.labels([0, 1, 2, 3]) == ["France", "Q5", "Paris (Q830149)", "Paris (Q90)"]
    assert cities.label(0) == "France"


def test_a_name_that_is_another_entry_s_identifier_is_not_enough() -> None:
    assert cities.label(4) == "Q5 (Q91)"
    assert cities.find("Q5") == 1


def test_without_names_labels_are_identifiers() -> None:
    assert Vocabulary("relation", pa.array(["a", "b"])).labels(np.array([1, 0])) == ["b", "a"]


@pytest.mark.parametrize(
    ("text", "id"), [("Q90", 3), ("Paris (Q90)", 3), ("France", 0), ("fRANCE", 0), ("Paris (Q830149)", 2)]
)
def test_find_takes_identifiers_labels_and_names(text: str, id: int) -> None:
    assert cities.find(text) == id


def test_a_name_in_the_right_case_wins_over_names_in_another() -> None:
    vocabulary = Vocabulary("entity", pa.array(["1", "2"]), pa.array(["us", "US"]))
    assert vocabulary.find("US") == 1
    with pytest.raises(UsageError, match="2 entities are called 'Us'"):
        vocabulary.find("Us")


def test_an_ambiguous_name_lists_identifiers_and_descriptions() -> None:
    with pytest.raises(UsageError) as error:
        cities.find("Paris")
    assert "Q830149: city in Texas" in str(error.value)
    assert "Q90: capital of France" in str(error.value)


@pytest.mark.parametrize("text", ["Frence", "rance", "Farnce", "francee"])
def test_an_unknown_name_gets_the_nearest(text: str) -> None:
    with pytest.raises(UsageError, match="Did you mean 'France'"):
        cities.find(text)


def test_an_unknown_identifier_gets_the_nearest() -> None:
    relations = Vocabulary("relation", pa.array(["/film/film/genre", "/film/film/produced_by"]))
    with pytest.raises(UsageError, match=r"no relation called .* Did you mean '/film/film/produced_by'"):
        relations.find("/film/film/producedby")


@pytest.mark.parametrize("text", ["", "x", "()", "(Q90)", " ("])
def test_odd_texts_are_unknown_and_nothing_worse(text: str) -> None:
    with pytest.raises(UsageError):
        cities.find(text)


def test_ids_of_unknown_identifiers_are_minus_one() -> None:
    ids = cities.ids(pa.array(["Q91", "nobody", "Q142"]))
    assert ids.tolist() == [4, -1, 0]
    assert ids.dtype == np.int32


def test_many_words_are_found_at_once_in_any_of_their_spellings() -> None:
    words = pa.chunked_array([["Q142", "france", "FRANCE"], ["Paris (Q90)", "France", "Paris (Q830149)"]])
    assert cities.find_all(words).tolist() == [0, 0, 0, 3, 0, 2]
    assert cities.known(pa.array(["FRANCE", "Atlantis", "Paris (Q1)", "france"])).tolist() == [0, -1, -1, 0]
    with pytest.raises(UsageError, match="2 entities are called 'PARIS'"):
        cities.known(pa.array(["France", "PARIS"]))
    with pytest.raises(UsageError, match="no entity called 'Atlantis'"):
        cities.find_all(pa.array(["France", "Atlantis"]))
