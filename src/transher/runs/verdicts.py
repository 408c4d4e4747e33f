"""What people said of facts: right or wrong. Kept in the run's folder, exported, and used by an update.

A line is appended for each thing that is said, and the last one about a triple counts. So nothing that was said is
lost, whoever else writes to the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from transher.errors import InputError, UsageError
from transher.files import first_fault, wait_for_lock
from transher.graph.graph import Graph

VERDICTS_FILE = "verdicts.jsonl"
VERDICTS = ("right", "wrong")
_COLUMNS = ("head", "relation", "tail")

Verdict = Literal["right", "wrong"]
Identifiers = tuple[str, str, str]


class Said(NamedTuple):
    """A verdict and the day of it."""

    verdict: Verdict
    date: str


class _Line(TypedDict):
    """What a line of the file says; no verdict takes an earlier one back."""

    head: str
    relation: str
    tail: str
    verdict: Verdict | None
    date: str


_LINE = TypeAdapter(_Line)


def read_verdicts(folder: Path) -> dict[Identifiers, Said]:
    """What holds of each triple that was marked, in the order in which they were first marked."""
    path, found = folder / VERDICTS_FILE, dict[Identifiers, Said]()
    if not path.is_file():
        return found
    # By lines of bytes: in a name there may be what ends a line of text.
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):  # a write that was cut off
            break
        try:
            values = _LINE.validate_json(line)
        except ValidationError as error:
            fault = f"line {number} is no verdict ({first_fault(error)})."
            raise InputError(fault, file=path, remedy="Delete the line.") from None
        triple = values["head"], values["relation"], values["tail"]
        if values["verdict"] is None:
            found.pop(triple, None)
        else:
            found[triple] = Said(values["verdict"], values["date"])
    return found


def state_of_file(folder: Path) -> tuple[int, int]:
    """Changes whenever something is said, by whichever process."""
    try:
        found = (folder / VERDICTS_FILE).stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def mark(folder: Path, triples: Mapping[Identifiers, Verdict | None]) -> None:
    """Append verdicts; None takes one back."""
    day = datetime.now(UTC).date().isoformat()
    lines = [
        json.dumps(dict(zip(_COLUMNS, triple, strict=True)) | {"verdict": verdict, "date": day}, ensure_ascii=False)
        for triple, verdict in triples.items()
    ]
    path = folder / VERDICTS_FILE
    try:
        with path.open("ab+") as file:
            wait_for_lock(file)  # another may be in the middle of a line
            _end_last_line(file)
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}. Verdicts are kept in the run's folder."
        ) from None


def _end_last_line(file: BinaryIO) -> None:
    """Cut off what a write left that was not finished, so that the next line stands alone."""
    file.seek(0)
    content = file.read()
    if content and not content.endswith(b"\n"):
        file.truncate(content.rfind(b"\n") + 1)


def verdict_frame(graph: Graph, said: Mapping[Identifiers, Said]) -> pd.DataFrame:
    """A row per verdict: labels, identifiers, verdict, date. A name that the graph does not have is its own label."""
    rows = []
    for triple, (verdict, day) in said.items():
        ids = ids_of_triple(graph, triple)
        labels = triple
        if ids is not None:
            labels = graph.entities.label(ids[0]), graph.relations.label(ids[1]), graph.entities.label(ids[2])
        rows.append((*labels, *triple, verdict, day))
    columns = [*_COLUMNS, "head_id", "relation_id", "tail_id", "verdict", "date"]
    return pd.DataFrame(rows, columns=columns)


def ids_of_triple(graph: Graph, triple: Identifiers) -> tuple[int, int, int] | None:
    """The ids of a triple in identifiers, or None where the graph does not have one of them."""
    head, tail = graph.entities.known(pa.array([triple[0], triple[2]], pa.string())).tolist()
    (relation,) = graph.relations.known(pa.array([triple[1]], pa.string())).tolist()
    return None if min(head, relation, tail) < 0 else (head, relation, tail)


def marked(graph: Graph, said: Mapping[Identifiers, Said], verdict: Verdict) -> NDArray[np.int32]:
    """The triples (n, 3) of one verdict that the graph has names for."""
    found = [ids_of_triple(graph, triple) for triple, one in said.items() if one.verdict == verdict]
    return np.array([ids for ids in found if ids is not None], dtype=np.int32).reshape(-1, 3)


def right_table(said: Mapping[Identifiers, Said]) -> pa.Table:
    """The triples that were called right, as `transher.graph.growing.grow` takes them."""
    right = [triple for triple, one in said.items() if one.verdict == "right"]
    columns = zip(*right, strict=True) if right else ((), (), ())
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(_COLUMNS, columns, strict=True)})
