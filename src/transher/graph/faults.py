"""Where a text file goes wrong: a slow second reading, line by line, once the fast one has failed."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from transher.errors import InputError

if TYPE_CHECKING:
    from transher.graph.tables import TextLayout

_WEIGHT_REMEDY = "Weights are numbers from 0 on."


def open_bytes(path: Path) -> BinaryIO:
    """The file's bytes, unpacked where its name ends in .gz."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def text_lines(path: Path, file: Iterable[bytes]) -> Iterator[str]:
    """The file's lines without their ends, one by one; the first that is not UTF-8 is an error that says which."""
    number = 0
    try:
        for number, line in enumerate(file, 1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"byte {error.start + 1} is not UTF-8.", file=path, line=number, remedy="Save the file as UTF-8."
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"is not a whole gzip file: {error}.", file=path, remedy="Make or fetch it again; was it cut short?"
        ) from error


def check_weights(weights: NDArray[Any]) -> bool:
    return bool((np.isfinite(weights) & (weights >= 0)).all())


def first_fault(path: Path, layout: TextLayout) -> InputError | None:
    """The first thing wrong with the file, or None if all is as `layout` says."""
    try:
        with open_bytes(path) as file:
            for number, cells in _records(text_lines(path, file), layout):
                what, remedy = _fault_of(cells, layout)
                if what:
                    return InputError(what, file=path, line=number, remedy=remedy)
    except InputError as error:
        return error
    return None


def _records(lines: Iterator[str], layout: TextLayout) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not blank with the number of the line it starts in."""
    if layout.quoted:
        reader = csv.reader(line + "\n" for line in lines)
        start = 1
        for cells in reader:
            if start > layout.header_lines and any(cell.strip() for cell in cells):
                yield start, cells
            start = reader.line_num + 1
        return
    for number, line in enumerate(lines, 1):
        if number > layout.header_lines and (line.strip() or layout.delimiter in line):
            yield number, line.split(layout.delimiter)


def _fault_of(cells: list[str], layout: TextLayout) -> tuple[str, str]:
    """What is wrong with a record and what to do about it, or two empty strings."""
    if len(cells) != layout.width:
        separator = {"\t": "tabs", " ": "spaces", ",": "commas"}[layout.delimiter]
        plural = "" if len(cells) == 1 else "s"
        return (
            f"{len(cells)} column{plural} where the first line has {layout.width}.",
            f"Separate columns by {separator}; every line needs the same number.",
        )
    for role, position in zip(("head", "relation", "tail"), layout.positions, strict=False):
        if not cells[position]:
            return f"the {role} is empty.", "Give it an identifier or take the line out."
    if len(layout.positions) == 4:
        written = cells[layout.positions[3]]
        try:
            weight = float(written)
        except ValueError:
            return f"the weight {written!r} is not a number.", _WEIGHT_REMEDY
        if not math.isfinite(weight) or weight < 0:
            return f"the weight {written!r} is not a finite number from 0 on.", _WEIGHT_REMEDY
    return "", ""
