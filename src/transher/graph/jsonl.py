"""Triples from lines of JSON: objects with a key per column, or arrays."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from transher.errors import InputError
from transher.graph.columns import ROLES, choose_columns
from transher.graph.content import Content
from transher.graph.encoding import SpelledTriples
from transher.graph.faults import BadRows
from transher.graph.options import ReadingOptions, option
from transher.graph.streams import Source, text_lines
from transher.graph.words import LARGEST_WEIGHT, as_weights, word_of

_BLOCK_ROWS = 100_000
_REMEDY = 'Each line is {"head": …, "relation": …, "tail": …} or […, …, …].'


class _BadLine(Exception):
    """What is wrong with a line."""


def read_jsonl(source: Source, options: ReadingOptions) -> Content:
    """Triples of a file with a JSON object or array in each line. Keys are found as columns of a header are, by the
    first line; arrays hold head, relation, tail and perhaps a weight, or what `columns` says."""
    content = Content(SpelledTriples())
    columns: list[list[Any]] = [[], [], [], []]
    weights: list[float] = []
    for _, _, row, _ in _lines(source, options, content.bad_rows):
        for column, cell in zip(columns, row, strict=False):
            column.append(cell)
        if len(columns[0]) == _BLOCK_ROWS:
            weights += _flush(content, columns)
    weights += _flush(content, columns)
    if not len(content.triples):
        found = f"The first bad line: {content.bad_rows.examples[0]}" if content.bad_rows.count else _REMEDY
        raise InputError("has no triples.", file=source.path, remedy=found)
    if weights:
        content.triples.weights = as_weights(np.array(weights))
    return content


def json_rows(
    source: Source, options: ReadingOptions, bad_rows: BadRows
) -> Iterator[tuple[int, list[str], dict[str, str | None]]]:
    """For each line its number, its head, relation and tail, and what else an object has, as text."""
    for number, value, row, keys in _lines(source, options, bad_rows):
        others = value.items() if isinstance(value, dict) else ()
        yield number, row[:3], {key: _as_text(cell) for key, cell in others if key not in keys[:3]}


def _as_text(cell: Any) -> str | None:
    return cell if cell is None or isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)


def _lines(
    source: Source, options: ReadingOptions, bad_rows: BadRows
) -> Iterator[tuple[int, Any, list[Any], tuple[Any, ...]]]:
    """For each line its number, its value, the words and perhaps the weight in it, and the keys of these. A bad line is
    an error, or is passed over and noted."""
    keys: tuple[Any, ...] | None = None

    def on_bad(line: int, what: str) -> None:
        if not options.skip_bad_rows:
            remedy = f"{_REMEDY} Or leave such lines out: {option('skip_bad_rows')}."
            raise InputError(what, file=source.path, line=line, remedy=remedy)
        bad_rows.add(f"{source.path.name}, line {line}", what)

    for number, line in text_lines(source, on_bad if options.skip_bad_rows else None):
        if not line.strip():
            continue
        try:
            value = _parsed(line)
            if keys is None:
                keys = _keys_of(value, options, source, number)
            row = _row(value, keys)
        except _BadLine as error:
            on_bad(number, str(error))
        else:
            yield number, value, row, keys


def _flush(content: Content, columns: list[list[Any]]) -> list[float]:
    """Move what was gathered into the triples, and return its weights."""
    if columns[0]:
        content.triples.append(*(pa.array(column, pa.string()) for column in columns[:3]))
    weights = list(columns[3])
    for column in columns:
        column.clear()
    return weights


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, ValueError) else "too deeply nested"
        raise _BadLine(f"is not JSON: {what}.") from error


def _keys_of(first: Any, options: ReadingOptions, source: Source, line: int) -> tuple[Any, ...]:
    """The keys of an object, or positions in an array, for head, relation, tail and perhaps weight."""
    if isinstance(first, dict):
        names = list(first)
        positions, _ = choose_columns(names, options, source.path, line)
        return tuple(names[place] for place in positions)
    if isinstance(first, list):
        if options.by_position and options.columns is not None:
            return tuple(options.columns)
        if len(first) in (3, 4):
            return tuple(range(len(first)))
    raise _BadLine(f"{json.dumps(first, ensure_ascii=False)[:60]} is no triple.")


def _row(value: Any, keys: tuple[Any, ...]) -> list[Any]:
    """The words and, where there is one, the weight of a line."""
    if isinstance(keys[0], str) != isinstance(value, dict) or not isinstance(value, dict | list):
        raise _BadLine(f"is not {'an object' if isinstance(keys[0], str) else 'an array'} as the first line is.")
    row: list[Any] = []
    for role, key in zip(ROLES, keys, strict=False):
        try:
            cell = value[key]
        except (KeyError, IndexError):
            found = ", ".join(value) if isinstance(value, dict) else f"{len(value)} values"
            raise _BadLine(f"there is no {key!r} for the {role}; it has {found}.") from None
        row.append(_weight(cell) if role == "weight" else _word(cell, role))
    return row


def _word(cell: Any, role: str) -> str:
    try:
        word = word_of(cell)
        if word is not None:
            word.encode()
    except (TypeError, ValueError) as error:  # a list or object, or half of a character
        raise _BadLine(f"the {role} is no identifier: {error}.") from error
    if word is None or not word.strip():
        raise _BadLine(f"the {role} is empty.")
    return word


def _weight(cell: Any) -> float:
    try:
        weight = float(cell)
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if not 0 <= weight <= LARGEST_WEIGHT:
        raise _BadLine(f"the weight {cell!r:.40} is not a finite number from 0 on.")
    return weight
