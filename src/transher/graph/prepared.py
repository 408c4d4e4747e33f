"""A graph that `transher prepare` left: read as a whole, or the parts in a range of ids."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import NonNegativeInt, PositiveInt, TypeAdapter

from transher.errors import InputError
from transher.files import read_json
from transher.graph.graph import Graph, Triples
from transher.graph.vocabulary import Vocabulary

PREPARED_FILE = "prepared.json"
_COLUMNS = ("head", "relation", "tail")
_REMEDY = "Prepare the graph again."


@dataclass(frozen=True)
class Prepared:
    """What a prepared folder holds."""

    name: str
    entities: NonNegativeInt
    relations: NonNegativeInt
    train: NonNegativeInt
    valid: NonNegativeInt
    test: NonNegativeInt
    parts: PositiveInt
    ignored: tuple[str, ...] = ()  # files of the folders that were given
    format: Literal[1] = 1


_PREPARED = TypeAdapter(Prepared)


def bounds(rows: int, parts: int) -> list[int]:
    """Where the range of each part of `rows` ids starts, and where the last one ends: parts + 1 numbers."""
    return [rows * part // parts for part in range(parts + 1)]


def part_file(folder: Path, kind: str, number: int) -> Path:
    return folder / kind / f"part-{number:04}.parquet"


def is_prepared(folder: Path) -> bool:
    return (folder / PREPARED_FILE).is_file()


def read_prepared(folder: Path) -> Prepared:
    """What the folder holds."""
    return read_json(folder / PREPARED_FILE, _PREPARED, "what a prepared graph says of itself", _REMEDY)


def load_prepared(folder: Path) -> Graph:
    """All of it, in memory."""
    said = read_prepared(folder)
    valid, test = held_out(folder)
    return Graph(
        name=said.name,
        entities=_words("entity", [part_file(folder, "entities", number) for number in range(said.parts)]),
        relations=_words("relation", [folder / "relations.parquet"]),
        train=triples_in(folder, "by_head", 0, said.entities),
        valid=valid,
        test=test,
        prepared=folder,
    )


def triples_in(folder: Path, kind: str, first: int, last: int) -> Triples:
    """The training triples whose head (`by_head`) or tail (`by_tail`) is one of the ids first … last − 1, in order."""
    said, column = read_prepared(folder), 0 if kind == "by_head" else 2
    starts = bounds(said.entities, said.parts)
    found = [np.empty((0, 3), dtype=np.int32)]
    for number in range(said.parts):
        if starts[number] < last and first < starts[number + 1]:
            triples = _triples(part_file(folder, kind, number), said)
            found.append(triples[slice(*np.searchsorted(triples[:, column], (first, last)))])
    return np.concatenate(found)


def held_out(folder: Path) -> tuple[Triples, Triples]:
    """The triples of valid and of test."""
    said = read_prepared(folder)
    return _triples(folder / "valid.parquet", said), _triples(folder / "test.parquet", said)


def copy_prepared(folder: Path, to: Path) -> None:
    """The same files at another place, by links where the system has them: they never change."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)

    shutil.copytree(folder, to, copy_function=link, ignore=shutil.ignore_patterns(".*"))


def _read(path: Path, columns: Sequence[str], is_type: Callable[[pa.DataType], bool]) -> pa.Table:
    """A table with these columns, of one kind and without an empty row."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", file=path, remedy=_REMEDY) from error
    for name in columns:
        if table.column_names.count(name) != 1 or not is_type(table[name].type) or table[name].null_count:
            raise InputError(f"there is no whole column {name!r}.", file=path, remedy=_REMEDY)
    return table


def _words(kind: str, paths: Sequence[Path]) -> Vocabulary:
    read = [_read(path, ["identifier"], pa.types.is_string)["identifier"] for path in paths]
    return Vocabulary(kind, pa.concat_arrays([chunk for column in read for chunk in column.chunks]))


def _triples(path: Path, said: Prepared) -> Triples:
    table = _read(path, _COLUMNS, pa.types.is_integer)
    triples = np.empty((len(table), 3), dtype=np.int32)
    for place, (name, count) in enumerate(zip(_COLUMNS, (said.entities, said.relations, said.entities), strict=True)):
        ids = np.asarray(table[name].to_numpy())
        if len(ids) and not 0 <= ids.min() <= ids.max() < count:
            raise InputError(f"the column {name!r} has an id that is not of this graph.", file=path, remedy=_REMEDY)
        triples[:, place] = ids
    return triples
