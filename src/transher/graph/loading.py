"""A graph by what people call it: a benchmark's name, or the path of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transher.errors import UsageError, nearest
from transher.graph.benchmarks import open_benchmark
from transher.graph.catalogue import BENCHMARKS
from transher.graph.download import Progress
from transher.graph.graph import Graph
from transher.graph.readers import read_graph


def load_graph(source: str | Path, *, progress: Progress | None = None, **reading: Any) -> Graph:
    """The benchmark of that name, downloaded if it is nowhere yet, or the graph at that path. `reading` goes to
    `read_graph`: columns, names, what to do with unseen entities, how to split."""
    name = str(source).lower()
    if name in BENCHMARKS and not (isinstance(source, Path) or Path(source).exists()):
        if reading:
            raise UsageError(f"{name} is a benchmark, read as it is: {', '.join(reading)} is for graphs of your own.")
        return open_benchmark(name, progress)
    if not Path(source).exists():
        hint = nearest(name, BENCHMARKS) or f"Benchmarks: {', '.join(BENCHMARKS)}."
        raise UsageError(f"There is no benchmark and no file or folder called '{source}'. {hint}")
    return read_graph(source, **reading)
