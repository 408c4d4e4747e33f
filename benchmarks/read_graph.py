"""How long reading a large graph takes, and how much memory: `python benchmarks/read_graph.py --millions 16`."""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from transher.graph import read_graph

ENTITIES, RELATIONS = 2_500_000, 535  # as many as ogbl-wikikg2 has


def write_triples(path: Path, millions: int) -> None:
    """Lines in random order, some entities far more frequent than others."""
    generator = np.random.default_rng(0)
    with path.open("w") as file:
        for _ in range(2 * millions):
            heads, relations, tails = (
                (count * generator.random(500_000) ** power).astype(int).tolist()
                for count, power in ((ENTITIES, 2), (RELATIONS, 2), (ENTITIES, 3))
            )
            file.writelines(f"Q{h}\tP{r}\tQ{t}\n" for h, r, t in zip(heads, relations, tails, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, default=5)
    millions = parser.parse_args().millions
    with tempfile.TemporaryDirectory() as folder:
        write_triples(Path(folder) / "train.tsv", millions)
        (Path(folder) / "test.tsv").write_text("Q1\tP1\tQ2\n")
        wall, processor = time.perf_counter(), time.process_time()
        graph = read_graph(folder)
        figures = {
            "triples": len(graph.train),
            "entities": len(graph.entities),
            "seconds": round(time.perf_counter() - wall, 2),
            "processor_seconds": round(time.process_time() - processor, 2),
            "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
