"""Graphs in OpenKE's layout: triples of integers in `train2id.txt`, their words in `entity2id.txt`."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transher.errors import InputError
from transher.graph.graph import SPLITS, Split, Triples
from transher.graph.streams import Source, text_lines

_MOST = 2**31  # ids have 32 bits
_COUNT_REMEDY = "OpenKE's files start with a line that says how many lines follow."


def is_openke(folder: Path) -> bool:
    return (folder / "train2id.txt").exists()


def read_openke(folder: Path) -> tuple[pa.StringArray, pa.StringArray, dict[Split, Triples]]:
    """Sorted identifiers of entities and relations, and the triples (n, 3) of each split that is there.

    The files list head, tail, relation, in this order, separated by spaces or tabs.
    """
    entities, entity_ids = _read_words(folder / "entity2id.txt")
    relations, relation_ids = _read_words(folder / "relation2id.txt")
    splits: dict[Split, Triples] = {}
    for split in SPLITS:
        path = folder / f"{split}2id.txt"
        if path.exists():
            numbers = _read_numbers(path, np.array([len(entities), len(entities), len(relations)]))
            splits[split] = np.stack(
                [entity_ids[numbers[:, 0]], relation_ids[numbers[:, 2]], entity_ids[numbers[:, 1]]], axis=1
            )
    return entities, relations, splits


def _read_words(path: Path) -> tuple[pa.StringArray, NDArray[np.int32]]:
    """The sorted words, and for each of the file's integers its word's place among them."""
    if not path.is_file():
        raise InputError("there is no such file.", file=path, remedy="An OpenKE folder needs it beside train2id.txt.")
    words: dict[int, str] = {}
    lines = text_lines(Source(path, ".txt"))
    count = _count(path, next(lines, (1, ""))[1])
    for number, line in lines:
        if not line.strip():
            continue
        word, _, written = line.rstrip().replace("\t", " ").rpartition(" ")
        if not word.strip() or not _is_below(written, count) or int(written) in words:
            raise InputError(
                f"{line[:200]!r} is not an identifier and its own number below {count:,}.",
                file=path,
                line=number,
                remedy="Each line is an identifier, a tab and an integer; none occurs twice.",
            )
        words[int(written)] = word.strip()
    if len(words) != count:
        raise InputError(f"{len(words):,} lines where its first line says {count:,}.", file=path, remedy=_COUNT_REMEDY)
    listed = pa.array([words[i] for i in range(count)], pa.string())
    order = pc.array_sort_indices(listed).to_numpy()
    places = np.empty(count, dtype=np.int32)
    places[order] = np.arange(count, dtype=np.int32)
    ordered = listed.take(pa.array(order))
    if len(ordered.unique()) != count:
        raise InputError("an identifier stands in two lines.", file=path, remedy="Each needs one number.")
    return ordered, places


def _read_numbers(path: Path, limits: NDArray[np.int64]) -> NDArray[np.int32]:
    """The file's rows (n, 3) below its count."""
    count = _count(path, next(text_lines(Source(path, ".txt")), (1, ""))[1])
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of no rows at all: the error says so
            lines = (line for _, line in text_lines(Source(path, ".txt")))
            numbers = np.loadtxt(lines, dtype=np.int32, skiprows=1, ndmin=2)
        fits = numbers.shape[1] == 3 and bool(((numbers >= 0) & (numbers < limits)).all())
    except ValueError:
        fits = False
    if not fits:
        raise _fault(path, limits)
    if len(numbers) != count:
        raise InputError(
            f"{len(numbers):,} triples where its first line says {count:,}.", file=path, remedy=_COUNT_REMEDY
        )
    return numbers


def _count(path: Path, line: str) -> int:
    if not _is_below(line.strip(), _MOST):
        what = f"{line[:200]!r} is not a count." if line.strip() else "is empty."
        raise InputError(what, file=path, line=1, remedy=_COUNT_REMEDY)
    return int(line)


def _is_below(written: str, limit: int) -> bool:
    """Whether it is an integer below `limit`. Very long ones are not even turned into a number."""
    return written.isascii() and written.isdecimal() and len(written) < 20 and int(written) < limit


def _fault(path: Path, limits: NDArray[np.int64]) -> InputError:
    for number, line in text_lines(Source(path, ".txt")):
        cells = line.split()
        if number == 1 or not cells:
            continue
        if len(cells) != 3 or not all(
            _is_below(cell, limit) for cell, limit in zip(cells, limits.tolist(), strict=True)
        ):
            remedy = f"Each line is head, tail, relation: integers below {limits[0]:,}, {limits[1]:,}, {limits[2]:,}."
            return InputError(f"{line[:200]!r} is not a triple.", file=path, line=number, remedy=remedy)
    return InputError("has no triples.", file=path)
