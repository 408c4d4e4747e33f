"""Triples from columns: Parquet files, and what Python programs hold: DataFrames, Arrow tables, arrays, rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from transher.errors import InputError, UsageError
from transher.graph.columns import ROLES, choose_columns, names_columns
from transher.graph.content import Content
from transher.graph.encoding import SpelledTriples
from transher.graph.options import ReadingOptions, option
from transher.graph.streams import Source
from transher.graph.words import (
    are_weights,
    as_weights,
    column_weights,
    column_words,
    is_data_frame,
    is_missing,
    word_of,
    words_of,
)

if TYPE_CHECKING:
    import pandas as pd

_BLOCK_ROWS = 1 << 20
_LISTED_ROWS = 1 << 16  # of Python values, which take more memory
_FROM_1 = " (counted from 1)"
_FAULTS = (pa.ArrowException, OSError, ValueError, TypeError, MemoryError, OverflowError)


@dataclass(frozen=True)
class Frame:
    """A table that is read block by block."""

    names: Sequence[str]
    blocks: Callable[[Sequence[int]], Iterable[list[pa.Array]]]  # the columns at some positions, block by block
    where: Path | str  # what messages call it
    first_row: str = ""  # how its rows are counted, where that is not obvious


def read_parquet(source: Source, options: ReadingOptions) -> Content:
    """Triples of a Parquet file, by the names of its columns or, where it has just three, in their order."""
    try:
        with pa.parquet.ParquetFile(source.path) as file:
            names = file.schema_arrow.names

            def blocks(positions: Sequence[int]) -> Iterator[list[pa.Array]]:
                wanted = [names[place] for place in positions]
                for batch in file.iter_batches(_BLOCK_ROWS, columns=list(dict.fromkeys(wanted))):
                    yield [batch.column(name) for name in wanted]

            return read_frame(Frame(names, blocks, source.path), options)
    except _FAULTS as error:
        raise InputError(f"is not a whole Parquet file: {error}", file=source.path) from error


def read_object(source: object, weights: object, options: ReadingOptions) -> Content:
    """Triples of a DataFrame, an Arrow table (or anything that gives one, as Polars and DuckDB do), an array (n, 3), or
    an iterable of triples. weights: (n,), where no column holds them."""
    try:
        return read_frame(_frame_of(source), options, None if weights is None else _weights_of(weights))
    except pa.ArrowException as error:  # of a table that is made while it is read
        raise InputError(f"{error}.", file="the table") from error


def read_frame(frame: Frame, options: ReadingOptions, given_weights: NDArray[np.float64] | None = None) -> Content:
    """The triples of a table. A row without an identifier, or with a wrong weight, is an error that names it, or is
    left out and noted."""
    names = list(frame.names)
    if options.columns is None and len(names) == 3 and not names_columns(names):
        positions: tuple[int, ...] = (0, 1, 2)
    else:
        positions, _ = choose_columns(names, options, frame.where, None)
    if len(positions) == 4 and given_weights is not None:
        raise UsageError("Weights are given twice: by `weights` and by a column.")
    content = Content(SpelledTriples())
    weights: list[NDArray[np.float64]] = []
    start = 0
    for columns in frame.blocks(positions):
        words = spelled(columns[:3], frame.where, [names[place] for place in positions])
        numbers = None if given_weights is None else given_weights[start : start + len(words[0])]
        if len(columns) == 4:
            numbers = column_weights(columns[3])
        if numbers is not None and len(numbers) != len(words[0]):
            break  # there are too few weights
        good = _good_rows(words, numbers, start, frame, options, content)
        content.triples.append(*(words if good.all() else (column.filter(pa.array(good)) for column in words)))
        if numbers is not None:
            weights.append(numbers[good])
        start += len(good)
    if given_weights is not None and len(given_weights) != start:
        raise UsageError(f"weights has {len(given_weights):,} numbers, which is not the number of triples.")
    if not len(content.triples):
        found = f" but {content.bad_rows.count:,} bad rows" if content.bad_rows.count else ""
        raise InputError(f"has no triples{found}.", file=frame.where, remedy="Give a head, relation and tail per row.")
    if weights:
        content.triples.weights = as_weights(np.concatenate(weights))
    return content


def spelled(columns: Sequence[pa.Array], where: Path | str, names: Sequence[str]) -> list[pa.Array]:
    """The words of some columns; `names` and `where` are for the error of a column that has none."""
    words = []
    for column, name in zip(columns, names, strict=False):
        try:
            words.append(column_words(column))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                f"the column {name!r} cannot be read: {error}.",
                file=where,
                remedy="Use columns of text or integers.",
            ) from error
    return words


def _good_rows(
    words: Sequence[pa.Array],
    numbers: NDArray[np.float64] | None,
    start: int,
    frame: Frame,
    options: ReadingOptions,
    content: Content,
) -> NDArray[np.bool_]:
    """Which rows of a block are triples: (n,)."""
    good = np.ones(len(words[0]), dtype=np.bool_)
    faults = [(is_missing(column), f"the {role} is missing.") for role, column in zip(ROLES, words, strict=False)]
    if numbers is not None:
        faults.append((~are_weights(numbers), "the weight is missing, negative or not a finite number."))
    for bad, what in faults:
        for row in np.flatnonzero(bad & good).tolist():
            where = f"row {start + row + 1:,}{frame.first_row}"
            if not options.skip_bad_rows:
                remedy = f"Fill it in, or leave such rows out: {option('skip_bad_rows')}."
                raise InputError(what, file=f"{frame.where}, {where}", remedy=remedy)
            name = frame.where.name if isinstance(frame.where, Path) else frame.where
            content.bad_rows.add(f"{name}, {where}", what)
        good &= ~bad
    return good


def _frame_of(source: object) -> Frame:
    if is_data_frame(source):
        names = [str(name) for name in source.columns]
        return Frame(names, lambda positions: [frame_columns(source, positions)], "the DataFrame", _FROM_1)
    if isinstance(source, np.ndarray):
        return Frame(_array_names(source), lambda positions: _array_blocks(source, positions), "the array", _FROM_1)
    if hasattr(source, "__arrow_c_stream__"):
        reader = _reader_of(source)
        return Frame(
            reader.schema.names,
            lambda positions: ([batch.column(place) for place in positions] for batch in reader),
            "the table",
            _FROM_1,
        )
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | dict):
        return _frame_of_rows(iter(source))
    raise UsageError(
        f"A graph cannot be made of {type(source).__name__}: give a path, a benchmark's name, a DataFrame, an Arrow "
        "table, an array (n, 3), or an iterable of (head, relation, tail)."
    )


def _reader_of(source: Any) -> pa.RecordBatchReader:
    try:
        return pa.RecordBatchReader.from_stream(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UsageError(f"{type(source).__name__} is not a table of triples: {error}.") from error


def frame_columns(frame: pd.DataFrame, positions: Sequence[int]) -> list[pa.Array]:
    """Some columns of a DataFrame as Arrow has them; those of Python objects as words."""
    columns = []
    for place in positions:
        values = frame.iloc[:, place]
        try:
            # Objects may be of any type each: Arrow would guess one for all of them.
            column = None if values.dtype == object else pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            column = None
        if column is None:
            column = _words_of_rows(values.tolist(), "the DataFrame", 0)
        columns.append(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return columns


def _array_names(array: NDArray[Any]) -> list[str]:
    if array.ndim != 2 or array.shape[1] not in (3, 4):
        raise UsageError(f"An array of triples is (n, 3), or (n, 4) with weights; this one is {array.shape}.")
    return list(ROLES[: array.shape[1]])


def _array_blocks(array: NDArray[Any], positions: Sequence[int]) -> Iterator[list[pa.Array]]:
    for start in range(0, len(array), _BLOCK_ROWS):
        columns = [array[start : start + _BLOCK_ROWS, place] for place in positions]
        if array.dtype.kind in "iufb":
            yield [pa.array(np.ascontiguousarray(column)) for column in columns]
        else:
            yield [_words_of_rows(column.tolist(), "the array", start) for column in columns]


def _frame_of_rows(rows: Iterator[object]) -> Frame:
    first = next(rows, None)
    if first is None:
        raise InputError("has no triples.", file="the iterable", remedy="Give (head, relation, tail) triples.")
    width = _width(first, 0)
    every = itertools.chain([first], rows)
    return Frame(ROLES[:width], lambda positions: _row_blocks(every, width, positions), "the iterable", _FROM_1)


def _width(row: object, place: int, expected: int | None = None) -> int:
    """How many values a row has: three, or four with a weight, and as many as the first."""
    width = len(row) if isinstance(row, Sequence | np.ndarray) and not isinstance(row, str | bytes) else 0
    if width not in (3, 4) or expected not in (None, width):
        raise InputError(
            f"{row!r:.80} is not a triple{f' of {expected} values' if expected else ''}.",
            file=f"the iterable, row {place + 1:,}{_FROM_1}",
            remedy="Each row is (head, relation, tail), or in all rows (head, relation, tail, weight).",
        )
    return width


def _row_blocks(rows: Iterator[Any], width: int, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
    start = 0
    while block := list(itertools.islice(rows, _LISTED_ROWS)):
        for place, row in enumerate(block, start):
            _width(row, place, width)
        columns = list(zip(*block, strict=True))
        yield [_words_of_rows(columns[place], "the iterable", start) for place in positions]
        start += len(block)


def _words_of_rows(values: Sequence[object], where: str, start: int) -> pa.StringArray:
    try:
        return words_of(values)
    except (TypeError, ValueError, pa.ArrowException):
        for row, value in enumerate(values, start + 1):
            try:
                pa.array([word_of(value)], pa.string())
            except (TypeError, ValueError, pa.ArrowException) as error:
                raise InputError(
                    f"{error}.", file=f"{where}, row {row:,}{_FROM_1}", remedy="Use text or integers."
                ) from error
        raise


def _weights_of(weights: object) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"weights: {error}. They are one number per triple.") from error
    if numbers.ndim != 1:
        raise UsageError(f"weights has shape {numbers.shape}; it is one number per triple.")
    return numbers
