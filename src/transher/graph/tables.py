"""Triples from TSV and CSV files, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.csv

from transher.errors import InputError
from transher.graph.columns import choose_columns, looks_like_header
from transher.graph.content import Content
from transher.graph.encoding import SPELLING, SpelledTriples
from transher.graph.faults import BadRows, TextLayout, fault_of, first_fault, rows
from transher.graph.options import ReadingOptions, option
from transher.graph.streams import OnBadRow, Source
from transher.graph.words import are_weights, as_weights

# A block's dictionary then fits into the processor's cache: 8 MiB take half as long again. The longest line fits too.
_BLOCK_BYTES = 2 << 20
_BLOCK_ROWS = 100_000
_REMEDY = "Give a file with a head, relation and tail in each line."


def read_text(source: Source, options: ReadingOptions) -> Content:
    """Triples of a TSV, TXT or CSV file. A row that is wrong is an error, or is left out and noted where the options
    say so."""
    layout = text_layout(source, options)
    try:
        content = Content(_fast(source, layout))
        as_it_should_be = _is_sound(content.triples) and not layout.spaced  # which Arrow does not understand
    except (InputError, pa.ArrowException, OSError, ValueError):
        as_it_should_be = False
    if not as_it_should_be:
        fault = None if options.skip_bad_rows else first_fault(source, layout)
        if fault is not None:
            raise fault
        content = _slow(source, layout)
        if not _is_sound(content.triples):
            raise InputError("an identifier is empty.", file=source.path, remedy=_REMEDY)
    if not len(content.triples):
        what = f"has no triples{' but bad rows' if content.bad_rows.count else ''}."
        found = f"The first: {content.bad_rows.examples[0]}" if content.bad_rows.count else _REMEDY
        raise InputError(what, file=source.path, remedy=found)
    if options.header == "auto" and not layout.header_lines:
        _settle_header(content, source, layout, options)
    return content


def _fast(source: Source, layout: TextLayout) -> SpelledTriples:
    spelled = SpelledTriples()
    weights = []
    for batch in _batches(source, layout):
        spelled.append(*batch.columns[:3])
        if len(layout.positions) == 4:
            weights.append(batch.column(3).to_numpy(zero_copy_only=False))
    if weights:
        spelled.weights = as_weights(np.concatenate(weights))
    return spelled


def _is_sound(spelled: SpelledTriples) -> bool:
    return not spelled.has_empty() and (spelled.weights is None or bool(are_weights(spelled.weights).all()))


def _batches(source: Source, layout: TextLayout) -> Iterator[pa.RecordBatch]:
    names = [f"column {position}" for position in range(layout.width)]
    # One column may be asked for twice; Arrow reads it once.
    wanted = [names[position] for position in layout.positions]
    types = dict.fromkeys(wanted[:3], SPELLING) | dict.fromkeys(wanted[3:], pa.float64())
    with source.open() as stream:
        batches = pa.csv.open_csv(
            stream,
            pa.csv.ReadOptions(column_names=names, skip_rows=layout.header_lines, block_size=_BLOCK_BYTES),
            pa.csv.ParseOptions(
                delimiter=layout.delimiter,
                quote_char='"' if layout.quoted else False,
                double_quote=layout.quoted,
                newlines_in_values=layout.quoted,
            ),
            pa.csv.ConvertOptions(column_types=types, include_columns=list(dict.fromkeys(wanted)), null_values=[]),
        )
        for batch in batches:
            yield batch.select(wanted)
        if layout.quoted and stream.quotes % 2:  # one may be open still, and hold the rest of the file
            for _ in rows(source, layout):
                pass


def _slow(source: Source, layout: TextLayout) -> Content:
    """The file's good rows, past lines of spaces alone, with a note of every bad one."""
    content = Content(SpelledTriples(), bad_rows=BadRows())
    columns: list[list[str]] = [[] for _ in layout.positions]
    weights: list[float] = []

    def on_bad(line: int, what: str) -> None:
        content.bad_rows.add(f"{source.path.name}, line {line}", what)

    def flush() -> None:
        if columns[0]:
            content.triples.append(*(pa.array(column, pa.string()) for column in columns[:3]))
        for column in columns:
            column.clear()

    for row in rows(source, layout, on_bad):
        what, _ = fault_of(row.cells, layout)
        if what:
            on_bad(row.start, what)
            continue
        for column, position in zip(columns, layout.positions, strict=True):
            column.append(row.cells[position])
        if len(columns) == 4:
            weights.append(float(columns[3][-1]))
        if len(columns[0]) == _BLOCK_ROWS:
            flush()
    flush()
    if len(layout.positions) == 4:
        content.triples.weights = as_weights(np.array(weights))
    return content


def text_layout(source: Source, options: ReadingOptions) -> TextLayout:
    quoted = source.form == ".csv"
    delimiter = options.separator or ("," if quoted else "")
    on_bad: OnBadRow | None = (lambda line, what: None) if options.skip_bad_rows else None  # noted by another reading
    start = list(islice(rows(source, TextLayout(delimiter or "\t", quoted), on_bad), 2))
    spaced = quoted and any(cell.startswith(' "') for row in start for cell in row.cells)
    if spaced:
        start = list(islice(rows(source, TextLayout(delimiter, quoted, spaced=True), on_bad), 1))
    cells = start[0].cells if start else []
    if not delimiter:
        delimiter = "\t" if len(cells) > 1 else " "
        cells = cells if len(cells) > 1 else " ".join(cells).split(" ")
    if not any(cell.strip() for cell in cells):
        raise InputError("is empty.", file=source.path, remedy=_REMEDY)
    positions, has_header = choose_columns(cells, options, source.path, start[0].start)
    return TextLayout(
        delimiter,
        quoted,
        start[0].end if has_header else 0,
        len(cells),
        positions,
        tuple(cell.strip() for cell in cells) if has_header else (),
        spaced,
    )


def _settle_header(content: Content, source: Source, layout: TextLayout, options: ReadingOptions) -> None:
    """A first line whose words occur nowhere else is a header where columns are given by position: a triple like it
    would be joined to nothing. Elsewhere it is left as it is, and told, so that ids never depend on the order of lines.
    """
    first = next(rows(source, layout, lambda line, what: None))
    is_triple = not fault_of(first.cells, layout)[0]
    if not is_triple or not looks_like_header(first.cells) or not content.triples.first_stands_alone():
        return
    shown = ", ".join(cell.strip() for cell in first.cells)
    if options.by_position:
        content.triples.drop_first()
        told = f"was taken as a header; {option('header', 'no')} reads it as a triple."
    else:
        told = f"shares no name with the others. If it is a header: {option('header', 'yes')}."
    content.headers.append(f"{source.path.name}: the first line ({shown}) {told}")
