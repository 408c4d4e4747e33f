"""The rows of one file, some at a time, with every column that they have: for what is told about each row again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from transher.errors import InputError
from transher.graph.columns import ROLES, choose_columns, names_columns
from transher.graph.encoding import SPELLING
from transher.graph.faults import BadRows, fault_of, rows
from transher.graph.jsonl import json_rows
from transher.graph.options import JSON_ENDINGS, PARQUET_ENDINGS, TEXT_ENDINGS, ReadingOptions, option
from transher.graph.rdf import read_rdf
from transher.graph.streams import Source, source_of
from transher.graph.tables import text_layout
from transher.graph.words import column_words

ENDS = ROLES[:3]
_BLOCK_ROWS = 50_000


@dataclass(frozen=True)
class Rows:
    """n rows of a file."""

    triples: pa.Table  # the columns head, relation and tail, as they are spelled
    others: pa.Table  # all other columns; text, but in Parquet of the types that they have there
    places: Sequence[int]  # (n,), the line or row of each, counted from 1
    unit: str = "line"  # what is counted


def read_rows(path: Path, options: ReadingOptions, bad_rows: BadRows) -> Iterator[Rows]:
    """Every row of a file of triples. One that is wrong is an error that names its line, or is passed over and noted in
    `bad_rows` where the options say so. RDF has no columns besides the triple."""
    source = source_of(path, options)
    if source.form in TEXT_ENDINGS:
        yield from _text_rows(source, options, bad_rows)
    elif source.form in JSON_ENDINGS:
        yield from _json_rows(source, options, bad_rows)
    elif source.form in PARQUET_ENDINGS:
        yield from _parquet_rows(source, options, bad_rows)
    else:
        yield from _statements(source, options)


def _statements(source: Source, options: ReadingOptions) -> Iterator[Rows]:
    spelled = read_rdf(source, options).triples
    start = 1
    for blocks in zip(spelled.heads, spelled.relations, spelled.tails, strict=True):
        count = len(blocks[0])
        yield Rows(
            pa.table(dict(zip(ENDS, blocks, strict=True))), pa.table({}), range(start, start + count), "statement"
        )
        start += count


def _text_rows(source: Source, options: ReadingOptions, bad_rows: BadRows) -> Iterator[Rows]:
    layout = text_layout(source, options)
    layout = replace(layout, positions=layout.positions[:3])  # a weight is a column like any other here
    names = layout.header or tuple(f"column {place}" for place in range(layout.width))

    def on_bad(line: int, what: str) -> None:
        bad_rows.add(f"{source.path.name}, line {line}", what)

    block: list[list[str]] = []
    places: list[int] = []
    for row in rows(source, layout, on_bad if options.skip_bad_rows else None):
        what, remedy = fault_of(row.cells, layout)
        if what and not options.skip_bad_rows:
            remedy = f"{remedy} Or leave such rows out: {option('skip_bad_rows')}."
            raise InputError(what, file=source.path, line=row.start, remedy=remedy)
        if what:
            on_bad(row.start, what)
            continue
        block.append(row.cells)
        places.append(row.start)
        if len(block) == _BLOCK_ROWS:
            yield _rows(block, places, names, layout.positions)
            block, places = [], []
    if block:
        yield _rows(block, places, names, layout.positions)


def _json_rows(source: Source, options: ReadingOptions, bad_rows: BadRows) -> Iterator[Rows]:
    """Objects need not all have the same keys: a first reading finds out which there are."""
    names: dict[str, None] = {}
    for _, _, more in json_rows(source, options, bad_rows):
        names |= dict.fromkeys(more)
    block: list[list[str | None]] = []
    places: list[int] = []
    for line, words, more in json_rows(source, options, BadRows()):  # noted already
        block.append([*words, *(more.get(name) for name in names)])
        places.append(line)
        if len(block) == _BLOCK_ROWS:
            yield _rows(block, places, (*ENDS, *names), (0, 1, 2))
            block, places = [], []
    if block:
        yield _rows(block, places, (*ENDS, *names), (0, 1, 2))


def _rows(
    block: Sequence[Sequence[str | None]], places: list[int], names: Sequence[str], positions: Sequence[int]
) -> Rows:
    columns = [pa.array(column, pa.string()) for column in zip(*block, strict=True)]
    return Rows(*_apart(columns, names, positions), places)


def _parquet_rows(source: Source, options: ReadingOptions, bad_rows: BadRows) -> Iterator[Rows]:
    try:
        with pq.ParquetFile(source.path) as file:
            names = file.schema_arrow.names
            if options.columns is None and len(names) == 3 and not names_columns(names):
                positions: tuple[int, ...] = (0, 1, 2)
            else:
                positions = choose_columns(names, options, source.path, None)[0][:3]
            start = 1
            for batch in file.iter_batches(_BLOCK_ROWS):
                columns = [column_words(c) if place in positions else c for place, c in enumerate(batch.columns)]
                triples, others = _apart(columns, names, positions)
                good = _present(triples, start, source, options, bad_rows)
                places = np.flatnonzero(good) + start
                chosen = pa.array(places - start)
                others = others.take(chosen) if others.num_columns else others
                yield Rows(triples.take(chosen), others, places.tolist(), "row")
                start += len(batch)
    except (pa.ArrowException, OSError, TypeError) as error:
        raise InputError(f"is not a whole Parquet file of triples: {error}", file=source.path) from error


def _present(
    triples: pa.Table, start: int, source: Source, options: ReadingOptions, bad_rows: BadRows
) -> NDArray[np.bool_]:
    """Which rows have a head, a relation and a tail: (n,)."""
    good = np.ones(len(triples), dtype=np.bool_)
    for role in ENDS:
        words = triples[role].cast(pa.string())
        missing = ~pc.fill_null(pc.not_equal(words, ""), False).to_numpy()
        for place in np.flatnonzero(missing & good).tolist():
            where, what = f"row {start + place}", f"the {role} is missing."
            if not options.skip_bad_rows:
                remedy = f"Fill it in. Or leave such rows out: {option('skip_bad_rows')}."
                raise InputError(what, file=f"{source.path}, {where}", remedy=remedy)
            bad_rows.add(f"{source.path.name}, {where}", what)
        good &= ~missing
    return good


def _apart(columns: Sequence[pa.Array], names: Sequence[str], positions: Sequence[int]) -> tuple[pa.Table, pa.Table]:
    """The columns of the triple, and the others, whose names differ from these and from each other."""
    triples = {
        role: pc.utf8_trim_whitespace(columns[place]).cast(SPELLING)
        for role, place in zip(ENDS, positions, strict=True)
    }
    others: dict[str, pa.Array] = {}
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        if place not in positions:
            others[unused(name, {*ENDS, *others})] = column
    return pa.table(triples), pa.table(others)


def unused(name: str, taken: set[str]) -> str:
    """The name, with a number behind it if it is taken."""
    number, free = 2, name
    while free in taken:
        number, free = number + 1, f"{name}_{number}"
    return free
