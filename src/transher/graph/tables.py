"""Triples from TSV, CSV and Parquet files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from transher.errors import InputError, UsageError, nearest
from transher.graph.encoding import SPELLING, SpelledTriples
from transher.graph.faults import check_weights, first_fault, open_bytes, text_lines

ROLES = ("head", "relation", "tail", "weight")
_SYNONYMS = {
    "head": ("head", "subject", "source", "from", "h"),
    "relation": ("relation", "predicate", "property", "rel", "r"),
    "tail": ("tail", "object", "target", "to", "t"),
    "weight": ("weight",),
}
_BLOCK_BYTES = 2 << 20  # a block's dictionary then fits into the processor's cache: 8 MiB take half as long again
_PARQUET_ROWS = 1 << 20

# Three or four columns, for head, relation, tail and weight: names in the header, or positions from 0.
Columns = Sequence[str] | Sequence[int]


@dataclass(frozen=True)
class TextLayout:
    """How a text file's lines are to be read."""

    delimiter: str
    quoted: bool  # CSV: quotes mean something, and a value may hold a line end
    header_lines: int  # lines up to and with the header, 0 without one
    width: int
    positions: tuple[int, ...]  # of head, relation, tail and, where there is one, weight


def read_text(path: Path, columns: Columns | None) -> SpelledTriples:
    """Triples of a TSV, TXT or CSV file, plain or gzip, in blocks of bounded memory."""
    layout = _text_layout(path, columns)
    spelled = SpelledTriples()
    weights = []
    try:
        for batch in _batches(path, layout):
            spelled.append(*batch.columns[:3])
            if len(layout.positions) == 4:
                weights.append(batch.column(3).to_numpy())
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise first_fault(path, layout) or InputError(f"cannot be read: {error}", file=path) from error
    if not len(spelled):
        raise InputError(
            "has no triples.", file=path, remedy="Give a file with a head, relation and tail in each line."
        )
    if weights:
        spelled.weights = np.concatenate(weights).astype(np.float32)
    if spelled.has_empty() or (spelled.weights is not None and not check_weights(spelled.weights)):
        fault = first_fault(path, layout)
        assert fault is not None
        raise fault
    return spelled


def _batches(path: Path, layout: TextLayout) -> Iterator[pa.RecordBatch]:
    names = [f"column {position}" for position in range(layout.width)]
    wanted = [names[position] for position in layout.positions]
    types = dict(zip(wanted, [SPELLING, SPELLING, SPELLING, pa.float64()], strict=False))
    with pa.input_stream(str(path), compression="gzip" if path.suffix == ".gz" else None) as stream:
        yield from pa.csv.open_csv(
            stream,
            pa.csv.ReadOptions(column_names=names, skip_rows=layout.header_lines, block_size=_BLOCK_BYTES),
            pa.csv.ParseOptions(
                delimiter=layout.delimiter,
                quote_char='"' if layout.quoted else False,
                double_quote=layout.quoted,
                newlines_in_values=layout.quoted,
                invalid_row_handler=lambda row: "error" if row.text.strip() else "skip",
            ),
            pa.csv.ConvertOptions(column_types=types, include_columns=wanted, null_values=[]),
        )


def _text_layout(path: Path, columns: Columns | None) -> TextLayout:
    quoted = ".csv" in path.suffixes[-2:]
    first, line_number = "", 0
    with open_bytes(path) as file:
        for line_number, first in enumerate(text_lines(path, file), 1):  # noqa: B007
            if first.strip():
                break
    if not first.strip():
        raise InputError("is empty.", file=path, remedy="Give a file with a head, relation and tail in each line.")
    if quoted:
        cells, delimiter = next(csv.reader([first])), ","
    else:
        delimiter = "\t" if "\t" in first else " "
        cells = first.split(delimiter)
    positions, has_header = choose_columns(cells, columns, path, line_number)
    return TextLayout(delimiter, quoted, line_number if has_header else 0, len(cells), positions)


def choose_columns(
    cells: Sequence[str], columns: Columns | None, path: Path, line: int | None
) -> tuple[tuple[int, ...], bool]:
    """Where head, relation, tail and perhaps weight stand, and whether `cells`, the first line, is a header."""
    if columns is not None:
        if len(columns) not in (3, 4):
            raise UsageError(f"columns={columns!r}: name three, for head, relation and tail, or four with the weight.")
        return tuple(_position(column, cells, path, line) for column in columns), isinstance(columns[0], str)
    lowered = [cell.strip().lower() for cell in cells]
    found = {role: next((lowered.index(word) for word in _SYNONYMS[role] if word in lowered), None) for role in ROLES}
    triple = [found[role] for role in ROLES[:3]]
    present = [position for position in triple if position is not None]
    if len(present) == 3:
        weight = found["weight"]
        return (*present, *(() if weight is None else (weight,))), True
    if len(present) == 2:  # one such word may be an entity; two are a header
        missing = ROLES[triple.index(None)]
        raise InputError(
            f"the header has no column for the {missing}: {', '.join(cells)}.",
            file=path,
            line=line,
            remedy=f"Call it {' or '.join(_SYNONYMS[missing][:3])}, or name the columns to read.",
        )
    if len(cells) != 3:
        raise InputError(
            f"there {'is 1 column' if len(cells) == 1 else f'are {len(cells)} columns'} and no header that names them.",
            file=path,
            line=line,
            remedy="Separate head, relation and tail by tabs (or commas in .csv), or say which columns to read.",
        )
    return (0, 1, 2), False


def _position(column: str | int, cells: Sequence[str], path: Path, line: int | None) -> int:
    if isinstance(column, str):
        stripped = [cell.strip() for cell in cells]
        if column in stripped:
            return stripped.index(column)
        known = f"{nearest(column, stripped)} It has: {', '.join(stripped)}.".strip()
        raise InputError(f"there is no column {column!r}.", file=path, line=line, remedy=known)
    if 0 <= column < len(cells):
        return column
    raise InputError(
        f"there is no column {column}.", file=path, line=line, remedy=f"It has columns 0 to {len(cells) - 1}."
    )


def read_parquet(path: Path, columns: Columns | None) -> SpelledTriples:
    """Triples of a Parquet file, by the names of its columns or, where it has just three, in their order."""
    try:
        file = pa.parquet.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"is not a Parquet file: {error}", file=path) from error
    names = file.schema_arrow.names
    if columns is None and len(names) == 3 and not _names_columns(names):
        columns = (0, 1, 2)
    positions, _ = choose_columns(names, columns, path, None)
    spelled = SpelledTriples()
    weights = []
    row = 0
    for batch in file.iter_batches(_PARQUET_ROWS, columns=[names[position] for position in positions]):
        blocks = [batch.column(names[position]) for position in positions]
        try:
            block = SpelledTriples()
            block.append(*(part.cast(pa.string()) for part in blocks[:3]))
            if len(blocks) == 4:
                weights.append(blocks[3].cast(pa.float64()).to_numpy(zero_copy_only=False))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"cannot be read: {error}", file=path, remedy="Use columns of text or integers."
            ) from error
        if block.has_empty():
            raise InputError(f"an identifier is empty in {_row_of_empty(blocks, row)}.", file=path)
        if weights and not check_weights(weights[-1]):
            raise InputError(
                "a weight is missing, negative or not a finite number.", file=path, remedy="Use numbers from 0 on."
            )
        spelled.append(block.heads[0], block.relations[0], block.tails[0])
        row += len(batch)
    if not row:
        raise InputError("has no triples.", file=path)
    if weights:
        spelled.weights = np.concatenate(weights).astype(np.float32)
    return spelled


def _names_columns(names: Sequence[str]) -> bool:
    lowered = {name.strip().lower() for name in names}
    return sum(bool(lowered.intersection(_SYNONYMS[role])) for role in ROLES[:3]) >= 2


def _row_of_empty(blocks: Sequence[pa.Array], start: int) -> str:
    for block in blocks[:3]:
        row = pc.index(pc.equal(pc.fill_null(block.cast(pa.string()), ""), ""), True).as_py()
        if row >= 0:
            return f"row {start + row + 1:,}"
    return "some row"
