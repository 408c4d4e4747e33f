"""Words to ids and back: each level, their order, what is ambiguous, what is suggested, what is shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transher.errors import UnknownNameError, UsageError
from transher.graph.lookup import Lookup, fold, fold_all

NAMES = ["Paris", "Paris", "parish", "Île-de-France", "São Paulo", "New York City", "York", "日本", "", "a\tb"]
IRIS = [
    "http://example.org/vocab#section",
    "http://example.org/vocab#Chapter",
    "http://example.org/other#title",
    "https://example.org/vocab#title",
    "http://example.org/paul/São_Paulo",
    "http://example.org/place/2988507/",
    "urn:isbn:0451450523",
    "urn:ex:part/page",
    "http://example.org/Category:Cities",
    "/plain/section",
]


def made(
    identifiers: list[str], names: Sequence[str | None] | None = None, descriptions: Sequence[str | None] | None = None
) -> Lookup:
    columns = (None if column is None else pa.array(column, pa.string()) for column in (names, descriptions))
    return Lookup("entity", pa.array(identifiers, pa.string()), *columns)


@pytest.fixture(scope="module", params=["without an index", "with an index"])
def named(request: pytest.FixtureRequest) -> Lookup:
    lookup = made([f"Q{i}" for i in range(len(NAMES))], NAMES)
    if request.param == "with an index":
        lookup.prepare()
    return lookup


@pytest.fixture(scope="module", params=["without an index", "with an index"])
def iris(request: pytest.FixtureRequest) -> Lookup:
    lookup = made(IRIS)
    if request.param == "with an index":
        lookup.prepare()
    return lookup


# --- the levels


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("Q1", 1),  # an identifier
        ("Paris (Q0)", 0),  # a label
        ("York", 6),  # a name
        ("YORK", 6),  # folded
        ("Sao Paulo", 4),
        (" SÃO PAULO ", 4),
        ("ile-de-france", 3),
        ("q7", 7),  # an identifier, folded
    ],
)
def test_a_word_is_found_at_every_level(named: Lookup, text: str, id: int) -> None:
    assert named.find(text) == id


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("http://example.org/vocab#section", 0),
        ("section", 0),
        ("vocab#section", 0),
        ("example.org/vocab#section", 0),
        ("SECTION", 0),
        ("Vocab#Section", 0),
        ("chapter", 1),
        ("other#title", 2),
        ("sao_paulo", 4),
        ("paul/sao_paulo", 4),
        ("2988507", 5),
        ("2988507/", 5),
        ("place/2988507", 5),
        ("0451450523", 6),
        ("isbn:0451450523", 6),
        ("page", 7),
        ("part/page", 7),
        ("ex:part/page", 7),
        ("Category:Cities", 8),
        ("HTTP://example.org/vocab#section", 0),
        ("/PLAIN/section", 9),
    ],
)
def test_an_iri_is_found_by_its_end(iris: Lookup, text: str, id: int) -> None:
    assert iris.find(text) == id


@pytest.mark.parametrize(
    "text", ["ection", "ocab#section", "//example.org/vocab#section", "Cities", "#section", "#", ""]
)
def test_an_end_begins_with_a_segment(iris: Lookup, text: str) -> None:
    with pytest.raises(UnknownNameError, match="The graph has no entity called"):
        iris.find(text)


def test_the_first_level_at_which_something_matches_decides() -> None:
    """Each entry matches `a` one level later than the one before it."""
    identifiers = ["a", "2", "3", "4", "http://x/a", "http://x/y/A", "Á"]
    names = [None, "a", "A", "Á", None, None, None]
    for first in range(len(identifiers)):
        lookup = made(identifiers[first:], names[first:])
        assert lookup.find("a") == 0, identifiers[first:]


def test_greek_in_capitals_is_found() -> None:
    assert made(["Q1"], ["Πάρος"]).find("ΠΑΡΟΣ") == 0


def test_the_right_case_wins_over_another_and_that_over_other_accents() -> None:
    lookup = made(["1", "2", "3"], ["Resume", "Résumé", "resume"])
    assert [lookup.find(text) for text in ("Resume", "resume", "RÉSUMÉ")] == [0, 2, 1]
    with pytest.raises(UnknownNameError, match="2 entities are called 'RESUME'"):
        lookup.find("RESUME")


def test_a_label_means_its_entry_although_another_has_it_as_its_name() -> None:
    lookup = made(["Q1", "Q2", "Q3"], ["Paris", "Paris", "Paris (Q1)"])
    assert lookup.find("Paris (Q1)") == 0
    assert lookup.labels([2]) == ["Paris (Q1) (Q3)"]


# --- several, or none


def test_several_matches_are_listed_with_how_to_name_one() -> None:
    lookup = made(["Q8", "Q90"], ["Paris", "Paris"], ["city in Texas", "capital of France"])
    with pytest.raises(UnknownNameError) as error:
        lookup.find("paris")
    assert "2 entities are called 'paris'. Give the identifier, or a label such as 'Paris (Q8)'" in str(error.value)
    assert "Q8: city in Texas" in str(error.value)
    assert "Q90: capital of France" in str(error.value)
    assert error.value.suggestions == ["Paris (Q8)", "Paris (Q90)"]


def test_iris_with_the_same_end_are_listed(iris: Lookup) -> None:
    with pytest.raises(UnknownNameError, match="2 entities are called 'title'") as error:
        iris.find("title")
    assert error.value.suggestions == ["other#title", "vocab#title"]
    assert [iris.find(label) for label in error.value.suggestions] == [2, 3]


def test_a_long_list_is_cut() -> None:
    lookup = made([f"Q{i}" for i in range(25)], ["Springfield"] * 25)
    with pytest.raises(UsageError, match=r"25 entities are called 'Springfield'(.|\n)*and 15 more"):
        lookup.find("Springfield")


@pytest.mark.parametrize(
    ("text", "suggestions"),
    [
        ("New Y", ["New York City"]),  # its beginning
        ("Yrok", ["York"]),  # letters in another order
        ("Sao Polo", ["São Paulo"]),
        ("xyzzy", []),
    ],
)
def test_beginnings_and_likeness_suggest_and_do_not_decide(named: Lookup, text: str, suggestions: list[str]) -> None:
    with pytest.raises(UnknownNameError) as error:
        named.find(text)
    assert error.value.suggestions[:1] == suggestions
    assert ("Did you mean" in str(error.value)) == bool(suggestions)


def test_beginnings_are_suggested_before_what_looks_alike() -> None:
    lookup = made(["1", "2", "3"], ["Marz", "Martinique", "Marsx"])
    with pytest.raises(UnknownNameError) as error:
        lookup.find("Mart")
    assert error.value.suggestions[0] == "Martinique"


def test_the_end_of_an_iri_is_suggested(iris: Lookup) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'section'"):
        iris.find("sectoin")


def test_a_single_word_does_not_need_the_pieces() -> None:
    lookup = made(["Q1"], ["São Paulo"])
    lookup.find("sao paulo")
    assert "_pieces" not in vars(lookup)


def test_the_nearest_of_many_similar_names_are_suggested() -> None:
    """The pieces that all names share tell nothing; those that few have choose whom to compare with."""
    count = 200_000
    names: list[str | None] = [f"{'abcdefghij'[i % 10]} settlement number {i}" for i in range(count)]
    lookup = made([f"Q{i:07}" for i in range(count)], names)
    with pytest.raises(UnknownNameError, match="Did you mean 'e settlement number 123454'"):
        lookup.find("e setlement nunber 123454")


# --- many words


def test_many_words_mean_what_each_means_alone(named: Lookup) -> None:
    words = ["Q1", "york", "Sao Paulo", "York", "q1", "Paris (Q0)", "york"] * 20  # more than the index is asked for
    assert named.find_all(pa.chunked_array([words[:3], words[3:]])).tolist() == [named.find(word) for word in words]
    assert named.find_all(pa.array(words).dictionary_encode()).tolist() == [named.find(word) for word in words]


def test_only_words_that_are_there_are_looked_for(named: Lookup) -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([1, 1]), pa.array(["Atlantis", "York"]))
    assert named.find_all(words).tolist() == [6, 6]
    assert made(["1", "7"]).find_all(pa.array([7, 1])).tolist() == [1, 0]


def test_no_words_are_found_at_once(named: Lookup) -> None:
    assert named.find_all(pa.array([], pa.string())).tolist() == []


def test_the_first_unknown_word_of_many_is_told(named: Lookup) -> None:
    with pytest.raises(UnknownNameError, match="no entity called 'Atlantis'"):
        named.find_all(pa.array(["York", "Atlantis", None]))
    with pytest.raises(UnknownNameError, match="no entity called ''"):
        named.find_all(pa.array(["York", None]))


def test_in_new_triples_only_identifiers_and_names_are_known() -> None:
    lookup = made(["http://x/vocab#section", "Q1", "Q2"], [None, "São Paulo", "Paris"])
    words = ["section", "vocab#section", "http://x/vocab#section", "sao paulo", "q1", "Q1", "Paris (Q2)", "Pari"]
    assert lookup.known(pa.array(words)).tolist() == [-1, -1, 0, 1, -1, 1, 2, -1]


def test_an_ambiguous_name_in_new_triples_is_an_error(named: Lookup) -> None:
    with pytest.raises(UsageError, match="2 entities are called 'PARIS'"):
        named.known(pa.array(["York", "PARIS"]))


# --- what is shown


def test_iris_are_shown_by_the_shortest_end_that_tells_them_apart(iris: Lookup) -> None:
    assert iris.labels(range(len(IRIS))) == [
        "section", "Chapter", "other#title", "vocab#title", "São_Paulo", "2988507", "0451450523", "page",
        "Category:Cities", "/plain/section",
    ]  # fmt: skip


def test_an_end_that_is_another_s_name_or_identifier_is_not_enough() -> None:
    lookup = made(
        ["http://x/a/one", "http://x/a/two", "http://x/a/three", "one", "Q1", "Q2"], [None] * 4 + ["two", "Three"]
    )
    assert lookup.labels(range(3)) == ["a/one", "a/two", "a/three"]


def test_iris_that_no_end_tells_apart_are_shown_whole() -> None:
    whole = ["http://x/a", "https://x/a", "http://x/a/"]
    assert made(whole).labels(range(3)) == whole
    assert made(["http://", "urn:", "http:///"]).labels(range(3)) == ["http://", "urn:", "http:///"]


def test_an_iri_with_a_name_is_shown_by_its_name() -> None:
    lookup = made(["http://x/Q90", "http://x/Q91"], ["Paris", None])
    assert lookup.labels([0, 1]) == ["Paris", "Q91"]


PARTS = st.sampled_from(["a", "A", "á", "b", "", " ", "a b", "(", ")", "a (b)", "b)", " (a", "´", "\n", "é:a", "日"])
HOSTILE = st.one_of(
    PARTS,
    st.builds("http://{}/{}".format, PARTS, PARTS),
    st.builds("https://{}/{}#{}".format, PARTS, PARTS, PARTS),
    st.builds("urn:{}:{}".format, PARTS, PARTS),
    st.builds("{}/{}".format, PARTS, PARTS),
    st.builds("{} ({})".format, PARTS, PARTS),
    st.text(st.characters(codec="utf-8"), max_size=4),
)


@given(st.dictionaries(HOSTILE, st.none() | HOSTILE, min_size=1, max_size=12), st.booleans())
def test_every_label_finds_its_own_id(names: dict[str, str | None], prepared: bool) -> None:
    lookup = made(sorted(names), [names[identifier] for identifier in sorted(names)])
    if prepared:
        lookup.prepare()
    labels = lookup.labels(range(len(names)))
    assert [lookup.find(label) for label in labels] == list(range(len(names)))
    assert lookup.find_all(pa.array(labels, pa.string())).tolist() == list(range(len(names)))


@given(st.dictionaries(HOSTILE, st.none() | HOSTILE, min_size=1, max_size=12), HOSTILE)
def test_the_index_changes_no_meaning(names: dict[str, str | None], text: str) -> None:
    def told(lookup: Lookup) -> object:
        try:
            return lookup.find(text)
        except UnknownNameError as error:
            return str(error), error.suggestions

    plain, prepared = (made(sorted(names), [names[identifier] for identifier in sorted(names)]) for _ in range(2))
    prepared.prepare()
    assert told(plain) == told(prepared)


# --- search as one types


@pytest.fixture
def weights() -> np.ndarray:
    return np.arange(len(NAMES))


def test_the_very_name_comes_before_longer_ones_and_the_weightier_first(named: Lookup, weights: np.ndarray) -> None:
    assert named.search("paris", 5, weights)[:3] == [1, 0, 2]
    assert named.search("paris", 5)[:3] == [0, 1, 2]


def test_what_a_label_means_comes_first(named: Lookup, weights: np.ndarray) -> None:
    assert named.search("Paris (Q0)", 1, weights) == [0]


def test_a_word_within_a_name_is_found(named: Lookup) -> None:
    assert set(named.search("york", 5)) == {6, 5}


def test_letters_may_be_swapped(named: Lookup) -> None:
    assert named.search("sao palo", 1) == [4]
    assert named.search("ile de franec", 1) == [3]


def test_names_in_other_scripts_are_found(named: Lookup) -> None:
    assert named.search("日", 1) == [7]


def test_an_iri_is_found_by_the_beginning_of_its_last_segment(iris: Lookup) -> None:
    assert iris.search("sec", 1) == [0]
    assert iris.search("http://example.org/v", 2) == [1, 0]


def test_an_empty_vocabulary_finds_nothing() -> None:
    empty = made([])
    assert empty.search("abc", 3) == []
    assert empty.labels([]) == []
    with pytest.raises(UnknownNameError):
        empty.find("abc")


@pytest.mark.parametrize("name", ["´", "℡", "ΑΣ", "ας", "İ", " a", "Ǆ", "ſ", "a\u0345"])
def test_signs_that_change_when_they_are_folded_are_found(name: str) -> None:
    lookup = made(["\x01"], [name])
    assert fold(fold(name)) == fold(name)
    assert lookup.search(name, 1) == ([0] if fold(name) else [])
    assert lookup.find(name) == 0


@given(st.text(max_size=6))
def test_a_text_alone_is_folded_as_among_others(text: str) -> None:
    assert fold(text) == fold_all(pa.array([text, "é"]))[0].as_py()
    assert fold(text) == fold_all(pa.array([text]))[0].as_py()


@given(st.text(max_size=30))
def test_no_text_breaks_the_search(text: str) -> None:
    lookup = made(IRIS, [*NAMES])
    assert len(lookup.search(text, 4)) <= 4


def test_half_a_character_is_no_name(named: Lookup) -> None:
    with pytest.raises(UnknownNameError):
        named.find("York\udcff")
    assert named.search("York\udcff", 1) == [6]


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), min_size=1, max_size=30), st.data())
def test_every_beginning_is_found(names: list[str], data: st.DataObject) -> None:
    lookup = made([f"\x01{i}" for i in range(len(names))], list(names))
    chosen = data.draw(st.integers(0, len(names) - 1))
    beginning = fold(names[chosen])
    if beginning:
        assert chosen in lookup.search(beginning, len(names))
