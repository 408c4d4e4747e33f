"""Files that were damaged at random: each ends in a graph or in an error for people, never in another exception."""

from __future__ import annotations

import random
import resource
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.graph.spelling import packed
from tests.graph.test_streams import TEXTS

from transher.errors import InputError, UsageError
from transher.graph import load_graph

MUTATIONS = 40  # per form
PACKED = [f"{ending}{packing}" for ending in (".tsv", ".csv", ".nt", ".rdf") for packing in (".gz", ".bz2", ".zst")]
SCRAPS = [
    *(bytes([byte]) for byte in b"\x00\r\n\t,\"'\\{<&"),
    *(b"\xff\xfe", b"&#0;", b"\xed\xa0\x80", b"\\ud800", b"1e999", b"\x1f\x8b\x08\x00", b"_:", b"@prefix"),
    *(b"head,relation,tail", b"[" * 5000, b"<<" * 2000, b"9" * 5000, b"x" * 70_000),
]


def whole(ending: str, folder: Path) -> bytes:
    if ending == ".parquet":
        columns: dict[str, Any] = {
            name: [f"{name}{i % 7}" for i in range(200)] for name in ("head", "relation", "tail")
        }
        columns["weight"] = [float(i) for i in range(200)]
        pa.parquet.write_table(pa.table(columns), folder / "whole.parquet", row_group_size=50)
        return (folder / "whole.parquet").read_bytes()
    kind = next(kind for kind in TEXTS if ending.startswith(kind))
    return packed((TEXTS[kind] * (1 if kind in (".rdf", ".owl") else 5)).encode(), ending.removeprefix(kind))


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, taken out, doubled or put in."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        place = chance.randrange(len(changed) + 1)
        length = chance.choice([1, 2, 10, 100])
        match chance.randrange(6):
            case 0:
                changed[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del changed[place : place + length]
            case 2:
                changed[place:place] = chance.choice(SCRAPS)
            case 3:
                changed[place:place] = changed[max(place - length, 0) : place]
            case 4:
                changed[place : place + length] = bytes(chance.randrange(256) for _ in range(length))
            case 5:
                del changed[place:]
    return bytes(changed)


def message_of(path: Path, **options: Any) -> str:
    """What a person is told about a file or folder: nothing if it is a graph. Other exceptions pass."""
    try:
        graph = load_graph(path, **options)
    except (InputError, UsageError) as error:
        return str(error)
    graph.entities.identifiers.to_pylist()  # would fail if it were not all text
    graph.relations.identifiers.to_pylist()
    return ""


@pytest.mark.parametrize("ending", [*TEXTS, *PACKED, ".parquet"])
def test_a_damaged_file_gives_a_graph_or_an_error_for_people(tmp_path: Path, ending: str) -> None:
    data = whole(ending, tmp_path)
    for number in range(MUTATIONS):
        chance = random.Random(f"{ending} {number}")
        path = tmp_path / f"{number}{ending}"
        path.write_bytes(mutated(data, chance))
        message = message_of(
            path,
            skip_bad_rows=chance.random() < 0.5,
            literals=chance.choice(["keep", "drop"]),
            columns=chance.choice([None, None, (0, 1, 2), (2, 1, 0)]),
        )
        assert not message or str(path) in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_openke_folder_gives_a_graph_or_an_error_for_people(tmp_path: Path, seed: int) -> None:
    files = {"train2id.txt": "2\n0 1 0\n1 0 0\n", "entity2id.txt": "2\na\t0\nb\t1\n", "relation2id.txt": "1\nr\t0\n"}
    chance = random.Random(seed)
    wrong = chance.choice(list(files))
    for name, text in files.items():
        (tmp_path / name).write_bytes(mutated(text.encode(), chance) if name == wrong else text.encode())
    message = message_of(tmp_path)
    assert not message or str(tmp_path) in message


@pytest.mark.parametrize("seed", range(40))
def test_damaged_names_are_names_or_an_error_for_people(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "names.tsv"
    path.write_bytes(mutated(b"a\tAnna\tfirst\nb\tBob\n" * 5, random.Random(seed)))
    try:
        graph = load_graph([("a", "r", "b")], entity_names=path)
    except InputError:
        return
    graph.entities.labels([0, 1])
