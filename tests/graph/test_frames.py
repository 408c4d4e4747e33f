"""Graphs from what Python programs hold: DataFrames, Arrow tables, arrays, rows; with weights and names."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.graph.spelling import Spelled, every_spelled, report_of, weights_of

import transher
from transher.errors import InputError, UsageError
from transher.graph import load_graph

TRIPLES = [("b", "likes", "a"), ("a", "knows", "b"), ("c", "knows", "ü é"), ("ü é", "likes", "c"), ("a", "knows", "b")]
COLUMNS = list(zip(*TRIPLES, strict=True))
FORMS: dict[str, Callable[[], Any]] = {
    "DataFrame": lambda: pd.DataFrame(TRIPLES, columns=["head", "relation", "tail"]),
    "DataFrame without names": lambda: pd.DataFrame(TRIPLES),
    "categories": lambda: pd.DataFrame(TRIPLES, columns=["head", "relation", "tail"]).astype("category"),
    "Arrow table": lambda: pa.table({"tail": COLUMNS[2], "head": COLUMNS[0], "relation": COLUMNS[1]}),
    "Arrow reader": lambda: pa.table(dict(zip("hrt", COLUMNS, strict=True))).to_reader(),
    "array": lambda: np.array(TRIPLES),
    "array of objects": lambda: np.array(TRIPLES, dtype=object),
    "list": lambda: TRIPLES,
    "generator": lambda: (list(triple) for triple in TRIPLES),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_graph_that_a_file_gives(form: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join("\t".join(triple) + "\n" for triple in TRIPLES))
    graph, read = transher.load_graph(FORMS[form](), seed=3), load_graph(tmp_path / "a.tsv", seed=3)
    assert graph.equals(read)
    assert report_of(graph).duplicates == report_of(read).duplicates == {"train": 1}
    assert report_of(graph).split_by_seed == 3


def test_a_graph_may_be_given_a_name() -> None:
    assert load_graph(TRIPLES).name == "graph"
    assert load_graph(TRIPLES, name="people").name == "people"


@given(st.permutations(TRIPLES))
def test_ids_and_splits_do_not_depend_on_the_order_of_rows(shuffled: list[Spelled]) -> None:
    graph, reference = load_graph(shuffled), load_graph(TRIPLES)
    assert every_spelled(graph) == every_spelled(reference)
    assert graph.entities.identifiers.equals(reference.entities.identifiers)


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ([1, 2], {"1", "2"}),
        ([1.0, 2.0], {"1", "2"}),
        ([1.0, 2.5], {"1", "2.5"}),
        ([12345678901.0, 2.0], {"12345678901", "2"}),
        ([1, "b"], {"1", "b"}),
        (["1", 2.0], {"1", "2"}),
        (pd.array([1, 2], dtype="Int64"), {"1", "2"}),
        ([np.int8(1), "b"], {"1", "b"}),
        ([2**70, 1], {str(2**70), "1"}),
        ([uuid.UUID(int=1), uuid.UUID(int=2)], {str(uuid.UUID(int=1)), str(uuid.UUID(int=2))}),
    ],
)
def test_values_become_the_words_that_a_person_expects(heads: list[object], expected: set[str]) -> None:
    frame = pd.DataFrame({"head": heads, "relation": "r", "tail": ["x", "y"]})
    assert {head for head, _, _ in every_spelled(load_graph(frame))} == expected
    assert {head for head, _, _ in every_spelled(load_graph(list(zip(heads, "rr", "xy", strict=True))))} == expected


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, "", "  "])
def test_a_missing_value_is_an_error_that_names_the_row(missing: object) -> None:
    frame = pd.DataFrame({"head": ["a", "b", "c"], "relation": "r", "tail": ["x", missing, "y"]})
    with pytest.raises(InputError, match=r"the DataFrame, row 2 \(counted from 1\): the tail is missing"):
        load_graph(frame)
    with pytest.raises(InputError, match="row 2"):
        load_graph(frame.to_numpy())
    with pytest.raises(InputError, match="the iterable, row 2"):
        load_graph(frame.itertuples(index=False))
    graph = load_graph(frame, skip_bad_rows=True)
    assert every_spelled(graph) == {("a", "r", "x"), ("c", "r", "y")}
    assert report_of(graph).bad_rows == 1
    assert "row 2" in report_of(graph).bad_row_examples[0]


@pytest.mark.parametrize("form", ["pandas", "Arrow", "skipped"])
def test_words_that_occur_in_no_triple_are_no_entities(form: str) -> None:
    frame = pd.DataFrame(TRIPLES, columns=["head", "relation", "tail"]).astype("category")[:2]
    spelling = pa.dictionary(pa.int32(), pa.string())
    table = pa.table({name: pa.array(["a", "b", "x"]).dictionary_encode().cast(spelling)[:2] for name in frame})
    skipped = pd.DataFrame({"head": ["a", "x"], "relation": ["r", "s"], "tail": ["b", None]})
    graph = load_graph({"pandas": frame, "Arrow": table, "skipped": skipped}[form], skip_bad_rows=True)
    assert graph.entities.identifiers.to_pylist() == ["a", "b"]
    assert report_of(graph).unseen.entities == 0


def test_an_integer_column_with_a_gap_is_not_read_as_decimals() -> None:
    frame = pd.DataFrame({"head": [1, None, 3], "relation": "r", "tail": [4, 5, 6]})
    graph = load_graph(frame, skip_bad_rows=True)
    assert every_spelled(graph) == {("1", "r", "4"), ("3", "r", "6")}


@pytest.mark.parametrize(
    "given_as",
    [
        lambda: (pd.DataFrame({"head": ["a", "b"], "relation": "r", "tail": ["b", "c"], "weight": [2, 0.5]}), {}),
        lambda: (
            pd.DataFrame({"trust": [2, 0.5], "of": ["a", "b"], "is": "r", "who": ["b", "c"]}),
            {"columns": ["of", "is", "who", "trust"]},
        ),
        lambda: ([("a", "r", "b", 2), ("b", "r", "c", "0.5")], {}),
        lambda: ([("a", "r", "b"), ("b", "r", "c")], {"weights": [2, 0.5]}),
        lambda: (np.array([("a", "r", "b"), ("b", "r", "c")]), {"weights": np.array([2, 0.5])}),
        lambda: (
            pa.table({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "c"]}),
            {"weights": pd.Series([2, 0.5])},
        ),
    ],
)
def test_weights_come_as_a_column_or_beside_the_triples(given_as: Callable[[], tuple[Any, dict[str, Any]]]) -> None:
    triples, options = given_as()
    graph = load_graph(triples, fractions=(1, 0, 0), **options)
    assert weights_of(graph).tolist() == [2, 0.5]


def test_an_array_of_numbers_may_hold_weights() -> None:
    graph = load_graph(np.array([[1, 0, 2, 0.5], [2, 0, 3, 1]]), fractions=(1, 0, 0))
    assert every_spelled(graph) == {("1", "0", "2"), ("2", "0", "3")}
    assert weights_of(graph).tolist() == [0.5, 1]


@pytest.mark.parametrize(
    ("source", "options", "error", "what"),
    [
        (TRIPLES, {"weights": [1, 2]}, UsageError, "weights has 2 numbers"),
        (TRIPLES, {"weights": [1] * 9}, UsageError, "weights has 9 numbers"),
        (TRIPLES, {"weights": ["x"] * 5}, UsageError, "one number per triple"),
        (TRIPLES, {"weights": [1, 1, -1, 1, 1]}, InputError, "row 3"),
        ([("a", "r", "b", "much")], {}, InputError, "row 1 .*: the weight is missing"),
        ([("a", "r")], {}, InputError, r"row 1 .*: \('a', 'r'\) is not a triple"),
        ([("a", "r", "b"), "abc"], {}, InputError, "row 2 .*: 'abc' is not a triple"),
        ([("a", "r", "b"), ("a", "r", "b", 1)], {}, InputError, "row 2 .* is not a triple of 3 values"),
        ([("a", "r", ["b"])], {}, InputError, r"row 1 .*: \['b'\] is not an identifier"),
        ([("a", "r", "\ud800")], {}, InputError, "row 1"),
        ([], {}, InputError, "has no triples"),
        ({"a": 1}, {}, UsageError, "cannot be made of dict"),
        (pd.Series(["a"]), {}, UsageError, "Series is not a table of triples"),
        ([("a", "r", "b", 1e300)], {}, InputError, "the weight is missing, negative or not a finite number"),
        (7, {}, UsageError, "cannot be made of int"),
        (np.zeros((2, 2)), {}, UsageError, r"\(n, 3\)"),
        (pd.DataFrame({"a": [1], "b": [2], "c": [3], "d": [4]}), {}, InputError, "4 columns .*: a, b, c, d.*columns"),
        (pd.DataFrame({"a": [1], "b": [2], "c": [3]}), {"columns": ["a", "b", "d"]}, InputError, "no column 'd'"),
        (
            pd.DataFrame({"head": [["x"]], "relation": "r", "tail": "y"}),
            {},
            InputError,
            r"row 1 .*: \['x'\] is not an identifier",
        ),
        (pa.table({"head": [["x"]], "relation": ["r"], "tail": ["y"]}), {}, InputError, "the column 'head'"),
        ("world", {"weights": [1]}, UsageError, "weights is for triples in Python"),
        ("world", {"columns": [0, 1, 2]}, UsageError, "world is a benchmark, read as it is: columns"),
        ("wrold", {}, UsageError, "Did you mean 'world'"),
        ("x" * 5000, {}, UsageError, "There is no benchmark"),
    ],
)
def test_what_cannot_be_a_graph_is_said_to_be(
    source: Any, options: dict[str, Any], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        load_graph(source, **options)


@pytest.mark.parametrize(
    "names",
    [
        {"a": "Anna", "b": "Bob"},
        pd.DataFrame({"name": ["Anna", "Bob"], "id": ["a", "b"]}),
        pd.DataFrame([("a", "Anna"), ("b", "Bob")]),
        pa.table({"identifier": ["a", "b"], "label": ["Anna", "Bob"], "other": [1, 2], "more": [1, 2]}),
    ],
)
def test_names_come_as_mappings_and_tables(names: Any) -> None:
    graph = load_graph(TRIPLES, entity_names=names, relation_names={"likes": "is fond of"})
    assert graph.entities.labels([0, 1, 2]) == ["Anna", "Bob", "c"]
    assert graph.relations.labels([0, 1]) == ["knows", "is fond of"]


def test_names_may_belong_to_numbers_and_have_descriptions() -> None:
    frame = pd.DataFrame({"identifier": [1, 2], "name": ["Anna", None], "description": ["first", ""]})
    graph = load_graph(np.array([[1, 0, 2]]), entity_names=frame, relation_names={0: "knows"}, fractions=(1, 0, 0))
    assert graph.entities.labels([0, 1]) == ["Anna", "2"]
    assert graph.entities.descriptions is not None
    assert graph.entities.descriptions.to_pylist() == ["first", None]
    assert graph.relations.label(0) == "knows"


def test_names_that_are_none_are_said_to_be() -> None:
    with pytest.raises(UsageError, match="entity_names cannot be int"):
        load_graph(TRIPLES, entity_names=7)
    with pytest.raises(InputError, match="its columns are a, b, c, d"):
        load_graph(TRIPLES, entity_names=pd.DataFrame({"a": [1], "b": [1], "c": [1], "d": [1]}))
    with pytest.raises(InputError, match=r"row 2 .*: the identifier is missing"):
        load_graph(TRIPLES, entity_names={"a": "x", None: "y"})
