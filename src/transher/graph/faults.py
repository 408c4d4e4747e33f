"""The rows of a text file one by one, and what is wrong with one: a slow second reading, once the fast one failed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field

from transher.errors import InputError
from transher.graph.options import option
from transher.graph.streams import LONGEST_LINE, OnBadRow, Source, text_lines
from transher.graph.words import LARGEST_WEIGHT

_WEIGHT_REMEDY = "Weights are numbers from 0 on."
_EXAMPLES = 5
_END = "\x00end of the file\x00"
DELIMITER_NAMES = {"\t": "tabs", " ": "spaces", ",": "commas"}


@dataclass(frozen=True)
class TextLayout:
    """How a text file's lines are to be read."""

    delimiter: str
    quoted: bool  # CSV: quotes mean something, and a value may hold a line end
    header_lines: int = 0  # lines up to and with the header, 0 without one
    width: int = 0
    positions: tuple[int, ...] = ()  # of head, relation, tail and, where there is one, weight
    header: tuple[str, ...] = ()  # its cells, where there is one
    spaced: bool = False  # CSV: a space stands between a comma and a quote, which is a quote all the same


@dataclass(frozen=True)
class Row:
    """A row of a text file, from the line in which it starts to the line in which it ends."""

    start: int
    end: int
    cells: list[str]


@dataclass
class BadRows:
    """Rows that were left out for being wrong, and where the first of them are."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, where: str, what: str) -> None:
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{where}: {what}")

    def extend(self, other: BadRows) -> None:
        self.count += other.count
        self.examples = (self.examples + other.examples)[:_EXAMPLES]


def first_fault(source: Source, layout: TextLayout) -> InputError | None:
    """The first thing wrong with the file, or None if all is as `layout` says."""
    try:
        for row in rows(source, layout):
            what, remedy = fault_of(row.cells, layout)
            if what:
                remedy = f"{remedy} Or leave such rows out: {option('skip_bad_rows')}."
                return InputError(what, file=source.path, line=row.start, remedy=remedy)
    except InputError as error:
        return error
    return None


def rows(source: Source, layout: TextLayout, on_bad: OnBadRow | None = None) -> Iterator[Row]:
    """Each row below the header that is not blank. `on_bad` takes note of lines that are not UTF-8."""
    if layout.quoted:
        yield from _quoted_rows(source, layout, on_bad)
        return
    for number, line in text_lines(source, on_bad):
        if number > layout.header_lines and (line.strip() or layout.delimiter in line):
            yield Row(number, number, line.split(layout.delimiter))


def _quoted_rows(source: Source, layout: TextLayout, on_bad: OnBadRow | None) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    line_number = 0

    def lines() -> Iterator[str]:
        nonlocal line_number
        for number, line in text_lines(source, on_bad):
            line_number = number
            yield f"{line}\n"
        yield f"{_END}\n"  # a row of its own, unless it falls into quotes that were never closed

    reader = csv.reader(lines(), delimiter=layout.delimiter, skipinitialspace=layout.spaced)
    start = 1
    try:
        for cells in reader:
            if any(_END in cell for cell in cells):
                if cells == [_END]:
                    return
                raise csv.Error
            if start > layout.header_lines and any(cell.strip() for cell in cells):
                yield Row(start, line_number, cells)
            start = line_number + 1
    except csv.Error as error:
        raise InputError(
            f"a quote opens a value that does not end, or is longer than {LONGEST_LINE:,} characters.",
            file=source.path,
            line=start,
            remedy=f"Close it. If quotes are ordinary characters, use {option('format', 'tsv')} "
            f"with {option('delimiter')}.",
        ) from error


def fault_of(cells: list[str], layout: TextLayout) -> tuple[str, str]:
    """What is wrong with a row and what to do about it, or two empty strings."""
    if len(cells) != layout.width:
        separator = DELIMITER_NAMES.get(layout.delimiter, repr(layout.delimiter))
        plural = "" if len(cells) == 1 else "s"
        columns = f" ({', '.join(layout.header)})" if layout.header else ""
        return (
            f"{len(cells)} column{plural} where the first line has {layout.width}{columns}.",
            f"Separate columns by {separator}; every line needs the same number.",
        )
    for role, position in zip(("head", "relation", "tail"), layout.positions, strict=False):
        if not cells[position].strip():
            return f"the {role} is empty.", "Give it an identifier or take the line out."
    if len(layout.positions) == 4:
        written = cells[layout.positions[3]]
        try:
            weight = float(written)
        except ValueError:
            return f"the weight {written!r} is not a number.", _WEIGHT_REMEDY
        if not 0 <= weight <= LARGEST_WEIGHT:
            return f"the weight {written!r} is not a finite number from 0 on.", _WEIGHT_REMEDY
    return "", ""
