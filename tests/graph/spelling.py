"""Small files of triples, and the triples of a graph in words."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from transher.graph import SPLITS, Graph, LoadReport, Split

Spelled = tuple[str, str, str]


def spelled(graph: Graph, split: Split = "train") -> list[Spelled]:
    """The triples of a split in identifiers."""
    entities, relations = graph.entities.identifiers.to_pylist(), graph.relations.identifiers.to_pylist()
    return [(entities[head], relations[relation], entities[tail]) for head, relation, tail in graph.split(split)]


def every_spelled(graph: Graph) -> set[Spelled]:
    return {triple for split in SPLITS for triple in spelled(graph, split)}


def report_of(graph: Graph) -> LoadReport:
    """What reading the graph found odd."""
    assert graph.load_report is not None
    return graph.load_report


def weights_of(graph: Graph) -> NDArray[np.float32]:
    assert graph.train_weights is not None
    return graph.train_weights


def lines(triples: Iterable[Spelled], separator: str = "\t") -> str:
    return "".join(separator.join(triple) + "\n" for triple in triples)


def packed(data: bytes, ending: str) -> bytes:
    """As a file with that ending has it."""
    if ending.lower() == ".zst":
        return bytes(pa.compress(data, codec="zstd", asbytes=True))
    packers: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    return packers.get(ending.lower(), bytes)(data)


def write(path: Path, text: str | bytes) -> Path:
    """Write a file, packed as its ending says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed(text.encode() if isinstance(text, str) else text, path.suffix))
    return path
