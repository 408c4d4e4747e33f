"""How long it takes to read a large file of triples and number what is in it, against pandas."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scripts.make_large_graph import write_graph

from benchmarks.settings import Settings, say
from benchmarks.timing import in_turns
from transher.graph import read_graph


def measure(settings: Settings) -> dict[str, Any]:
    lines = 500_000 if settings.quick else 5_000_000
    entities = lines // 6
    with tempfile.TemporaryDirectory() as folder:
        write_graph(Path(folder), entities=entities, relations=535, triples=lines, held_out=100)
        path = Path(folder) / "train.tsv"
        size = path.stat().st_size
        say(f"{lines:,} lines, {size / 1e6:.0f} MB")
        sides = {
            "ours": lambda: read_graph(folder),
            "pandas": lambda: _pandas(path, "c"),
            "pandas, pyarrow": lambda: _pandas(path, "pyarrow"),
        }
        times = in_turns(sides, settings, settings.left, rounds=3)
    return settings.record({"lines": lines, "entities": entities, "bytes": size, "sides": times})


def _pandas(path: Path, engine: Any) -> tuple[np.ndarray, np.ndarray]:
    """Read and number, no more: no check of the lines, no duplicates found, no order of ids."""
    table = pd.read_csv(path, sep="\t", header=None, names=["head", "relation", "tail"], dtype=str, engine=engine)
    entities, _ = pd.factorize(pd.concat([table["head"], table["tail"]]))
    relations, _ = pd.factorize(table["relation"])
    return entities.reshape(2, -1), relations
