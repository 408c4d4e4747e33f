"""Which columns of a table are head, relation, tail and weight, and whether its first line is a header."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transher.errors import InputError, nearest
from transher.graph.options import ReadingOptions, option

ROLES = ("head", "relation", "tail", "weight")
_SYNONYMS = {
    "head": ("head", "subject", "source", "from", "h", ":start_id", "_start"),
    "relation": ("relation", "predicate", "property", "rel", "r", ":type", "_type"),
    "tail": ("tail", "object", "target", "to", "t", ":end_id", "_end"),
    "weight": ("weight",),
}
_WORDS = {word for words in _SYNONYMS.values() for word in words}
_OTHER_DELIMITERS = ",;|\t"


def choose_columns(
    cells: Sequence[str], options: ReadingOptions, where: Path | str, line: int | None
) -> tuple[tuple[int, ...], bool]:
    """Where head, relation, tail and perhaps weight stand, and whether `cells`, the first line, is a header.

    A first line is a header where columns are named; where it has words that are known for all three columns; and
    where columns are given by position, if two of their cells are such words or the weight is not a number."""
    if options.columns is not None:
        positions = tuple(_position(column, cells, where, line) for column in options.columns)
        is_header = not options.by_position or options.header == "yes"
        return positions, is_header or (options.header == "auto" and _says_so([cells[place] for place in positions]))
    named = _by_words(cells, where, line) if options.header != "no" else None
    if named is not None:
        return named, True
    if len(cells) != 3:
        raise _unnamed(cells, where, line)
    return (0, 1, 2), options.header == "yes"


def names_columns(names: Sequence[str]) -> bool:
    """Whether at least two of `names` are words for head, relation or tail: one may be an entity, two are a header."""
    lowered = {name.strip().lower() for name in names}
    return sum(bool(lowered.intersection(_SYNONYMS[role])) for role in ROLES[:3]) >= 2


def looks_like_header(cells: Sequence[str]) -> bool:
    """Whether the cells could be a header at all: none is empty or a number, and none occurs twice."""
    words = {cell.strip() for cell in cells}
    return len(words) == len(cells) and all(word and not _is_number(word) for word in words)


def _says_so(chosen: Sequence[str]) -> bool:
    words = sum(cell.strip().lower() in _WORDS for cell in chosen[:3])
    return words >= 2 or (len(chosen) == 4 and not _is_number(chosen[3]))


def _by_words(cells: Sequence[str], where: Path | str, line: int | None) -> tuple[int, ...] | None:
    """The columns that a header of known words names, or None if `cells` is no such header."""
    lowered = [cell.strip().lower() for cell in cells]
    found = {role: next((lowered.index(word) for word in _SYNONYMS[role] if word in lowered), None) for role in ROLES}
    triple = [found[role] for role in ROLES[:3]]
    present = [position for position in triple if position is not None]
    if len(present) == 3:
        weight = found["weight"]
        return (*present, *(() if weight is None else (weight,)))
    if len(present) < 2:
        return None
    missing = ROLES[triple.index(None)]
    raise InputError(
        f"the header has no column for the {missing}: {', '.join(cells)}.",
        file=where,
        line=line,
        remedy=f"Call it {' or '.join(_SYNONYMS[missing][:3])}, or name the columns to read with {option('columns')}.",
    )


def _unnamed(cells: Sequence[str], where: Path | str, line: int | None) -> InputError:
    shown = ", ".join(cells) if sum(map(len, cells)) < 200 else ", ".join(cell[:20] for cell in cells[:8])
    if len(cells) == 1:
        what = "there is 1 column"
        other = next((mark for mark in _OTHER_DELIMITERS if cells[0].count(mark) >= 2), None)
        remedy = "Separate head, relation and tail by tabs (or commas in .csv)"
        if other is not None:
            remedy = f"Is it separated by {other!r}? Say so with {option('delimiter', repr(other))}"
        return InputError(f"{what} and no header that names it.", file=where, line=line, remedy=f"{remedy}.")
    return InputError(
        f"there are {len(cells)} columns and no header that names them: {shown}.",
        file=where,
        line=line,
        remedy=f"Say which are head, relation and tail, by name or from 0: {option('columns', '0,1,2')}.",
    )


def _position(column: str | int, cells: Sequence[str], where: Path | str, line: int | None) -> int:
    stripped = [cell.strip() for cell in cells]
    if isinstance(column, str):
        if column in stripped:
            return stripped.index(column)
        known = f"{nearest(column, stripped)} It has: {', '.join(stripped)}.".strip()
        raise InputError(f"there is no column {column!r}.", file=where, line=line, remedy=known)
    if 0 <= column < len(cells):
        return column
    raise InputError(
        f"there is no column {column}.",
        file=where,
        line=line,
        remedy=f"It has columns 0 to {len(cells) - 1}: {', '.join(stripped)}.",
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
