"""Lines of JSON: objects and arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.graph.spelling import every_spelled, report_of, weights_of, write

from transher.errors import InputError
from transher.graph import load_graph

GOOD = '{"head": "a", "relation": "r", "tail": "b"}\n'


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('{"head": "a", "relation": "r", "tail": 1}\n\n{"tail": "ü", "head": 1.0, "x": [], "relation": "r"}\n', {}),
        (
            '{"subject": "a", "predicate": "r", "object": " 1 "}\n'
            '{"subject": 1, "predicate": "r", "object": "\\u00fc"}',
            {},
        ),
        ('{"x": "a", "y": "r", "z": 1}\n{"x": 1, "y": "r", "z": "ü"}\n', {"columns": ("x", "y", "z")}),
        ('{"x": "a", "y": "r", "z": 1}\n{"x": 1, "y": "r", "z": "ü"}\n', {"columns": (0, 1, 2)}),
        ('["a", "r", 1]\n[1, "r", "ü"]\n', {}),
        ('["r", "a", null, 1]\n["r", 1, null, "ü"]\n', {"columns": (1, 0, 3)}),
    ],
)
def test_objects_and_arrays_are_triples(tmp_path: Path, text: str, options: dict[str, Any]) -> None:
    for name in ("a.jsonl", "a.ndjson"):
        graph = load_graph(write(tmp_path / name, text), **options)
        assert every_spelled(graph) == {("a", "r", "1"), ("1", "r", "ü")}


def test_weights_are_read(tmp_path: Path) -> None:
    objects = write(tmp_path / "a.jsonl", '{"head": "a", "relation": "r", "tail": "b", "weight": 2}\n')
    arrays = write(tmp_path / "b.jsonl", '["a", "r", "b", 2.0]\n')
    for path in (objects, arrays):
        assert weights_of(load_graph(path)).tolist() == [2]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON: too deeply nested"),
        (f'{{"head": {"9" * 5000}}}', "is not JSON"),
        ('{"head": "a", "relation": "r"}', "there is no 'tail' for the tail; it has head, relation"),
        ('{"head": null, "relation": "r", "tail": "b"}', "the head is empty"),
        ('{"head": "", "relation": "r", "tail": "b"}', "the head is empty"),
        ('{"head": ["a"], "relation": "r", "tail": "b"}', r"the head is no identifier: \['a'\]"),
        ('{"head": "\\ud800", "relation": "r", "tail": "b"}', "the head is no identifier"),
        ('["a", "r", "b"]', "is not an object as the first line is"),
        ("7", "is not an object"),
    ],
)
def test_a_bad_line_is_named_or_skipped(tmp_path: Path, line: str, what: str) -> None:
    path = write(tmp_path / "a.jsonl", f"{GOOD}\n{line}\n{GOOD}")
    with pytest.raises(InputError, match=f"line 3: {what}.*--skip-bad-rows"):
        load_graph(path)
    graph = load_graph(path, skip_bad_rows=True)
    assert every_spelled(graph) == {("a", "r", "b")}
    assert report_of(graph).bad_rows == 1
    assert report_of(graph).bad_row_examples[0].startswith("a.jsonl, line 3: ")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "has no triples"),
        ("7\n", "line 1: 7 is no triple"),
        ("[1, 2]\n", r"line 1: \[1, 2\] is no triple"),
        ('{"a": 1, "b": 2, "c": 3, "d": 4}\n', "line 1: there are 4 columns and no header that names them: a, b, c, d"),
        ('["a", "r", "b", -1]\n', "line 1: the weight -1 is not a finite number"),
    ],
)
def test_a_file_without_triples_is_said_to_be(tmp_path: Path, text: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        load_graph(write(tmp_path / "a.jsonl", text))
