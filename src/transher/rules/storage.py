"""Rules on disk: a Parquet file that answers, and beside it what it takes to go on mining."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

from transher.errors import InputError
from transher.files import first_fault, replacing
from transher.graph.known import KnownTriples
from transher.kernels.rules import KINDS, Column, Rows, Worth, confidences
from transher.rules.mining import Mining, Place
from transher.rules.rules import Rules

RULES_FILE, MINING_FILE = "rules.parquet", "mining.parquet"
_FORMAT = 2
_NAMES = [column.name.lower() for column in Column]
_REMEDY = "It was cut short or changed after it was written: take a copy or mine again."


_Positive = Annotated[float, Field(gt=0, lt=100)]


class _Place(BaseModel):
    """A `Place`, but for what was counted, which lies in a file of its own."""

    blocks: NonNegativeInt
    constants: NonNegativeInt
    round: NonNegativeInt
    bodies: NonNegativeInt
    finished: bool
    seconds: float


class _Worth(BaseModel):
    weights: list[_Positive] = Field(min_length=KINDS, max_length=KINDS)
    powers: list[_Positive] = Field(min_length=KINDS, max_length=KINDS)
    decay: float = Field(gt=0, le=1)


class _Described(BaseModel):
    format: int
    entities: NonNegativeInt
    relations: NonNegativeInt
    worth: _Worth
    seed: NonNegativeInt
    place: _Place


def save_rules(folder: Path, rules: Rules, place: Place, seed: int) -> None:
    """Write the rules, the most confident first for each relation, with `kind`, `relation` and `confidence` for other
    readers."""
    rows = rules.rows
    relations = rows[:, Column.END] % max(1, rules.relation_count)
    sure = confidences(rows)
    order = np.lexsort((-sure, relations))
    rows, relations, sure = rows[order], relations[order], sure[order]
    kinds = pa.array(np.where(rows[:, Column.ANSWER] < 0, "closed", "constant")).dictionary_encode()
    columns: dict[str, Any] = {"kind": kinds, "relation": relations}
    columns |= {name: rows[:, number] for number, name in enumerate(_NAMES)} | {"confidence": sure.astype(np.float32)}
    described = {
        "format": _FORMAT,
        "entities": rules.entity_count,
        "relations": rules.relation_count,
        "worth": rules.worth._asdict(),
        "seed": seed,
        "place": {key: value for key, value in asdict(place).items() if key != "counted"},
    }
    _write(folder / RULES_FILE, columns, described)


def save_counted(folder: Path, place: Place) -> None:
    """Write which bodies were counted, by round. Written before the rules: rounds that these do not have yet are left
    out when they are read."""
    bodies = np.concatenate([np.empty(0, np.int64), *place.counted])
    rounds = np.repeat(np.arange(len(place.counted)), [len(part) for part in place.counted])
    _write(folder / MINING_FILE, {"body": bodies, "round": rounds.astype(np.int32)}, {"format": _FORMAT})


def load_rules(folder: Path, trained: KnownTriples) -> Rules:
    """The rules of a folder, for the triples that they were mined in."""
    rows, described = _read_rules(folder, trained)
    try:
        own = described.worth
        return Rules(rows, trained, Worth(tuple(own.weights), tuple(own.powers), own.decay))
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
        raise InputError(f"does not fit the graph: {error}.", file=folder / RULES_FILE, remedy=_REMEDY) from None


def load_mining(folder: Path, trained: KnownTriples, seed: int) -> Mining:
    """The mining of a folder, to go on with; from its beginning if it has not come to rules."""
    if not (folder / RULES_FILE).is_file():
        return Mining(trained, seed=seed)
    rows, described = _read_rules(folder, trained)
    table = _table(folder / MINING_FILE, {"body", "round"})
    try:
        place = Place(**described.place.model_dump())
        if (table["body"].type, table["round"].type) != (pa.int64(), pa.int32()):
            raise ValueError("what was counted is not in whole numbers")
        bodies, rounds = table["body"].to_numpy(), table["round"].to_numpy()
        place.counted = [bodies[rounds == number] for number in range(place.round)]
        return Mining(trained, seed=described.seed, rules=rows, place=place)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"cannot be resumed: {error}.", file=folder / RULES_FILE, remedy=_REMEDY) from None


def _read_rules(folder: Path, trained: KnownTriples) -> tuple[Rows, _Described]:
    path = folder / RULES_FILE
    table = _table(path, set(_NAMES))
    described = _described(table, path)
    sizes = described.entities, described.relations
    if sizes != (trained.entity_count, trained.relation_count):
        raise InputError(
            f"is of a graph with {sizes[0]} entities and {sizes[1]} relations, and this one has "
            f"{trained.entity_count} and {trained.relation_count}.",
            file=path,
        )
    columns: list[NDArray[np.int32]] = []
    for name in _NAMES:
        if table[name].type != pa.int32() or table[name].null_count:
            raise InputError(f"has a column '{name}' that is not of whole numbers.", file=path, remedy=_REMEDY)
        columns.append(table[name].to_numpy())
    return np.stack(columns, axis=1), described


def _table(path: Path, wanted: set[str]) -> pa.Table:
    if not path.is_file():
        raise InputError("there is no such file.", file=path, remedy="The mining left no rules: start it again.")
    try:
        table = pq.read_table(path)
        names = set(table.column_names)  # which may not be text
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"is not a Parquet file ({error}).", file=path, remedy=_REMEDY) from None
    if missing := sorted(wanted - names):
        raise InputError(f"has no column '{missing[0]}'.", file=path, remedy=_REMEDY)
    return table


def _described(table: pa.Table, path: Path) -> _Described:
    try:
        described = _Described.model_validate_json((table.schema.metadata or {}).get(b"transher", b""))
    except ValidationError as error:
        raise InputError(f"holds no rules of transher ({first_fault(error)}).", file=path, remedy=_REMEDY) from None
    if described.format != _FORMAT:
        raise InputError(f"has format {described.format}, and this version of transher reads {_FORMAT}.", file=path)
    return described


def _write(path: Path, columns: dict[str, Any], described: dict[str, Any]) -> None:
    table = pa.table(columns).replace_schema_metadata({"transher": json.dumps(described)})
    with replacing(path) as file:
        pq.write_table(table, file, compression="zstd")
