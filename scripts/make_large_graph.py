"""A random graph as large as ogbl-wikikg2, as TSV files: `python scripts/make_large_graph.py FOLDER`.

Some entities are far more frequent than others, more so as tails, and every entity occurs. There is nothing to learn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

ENTITIES, RELATIONS, TRIPLES, HELD_OUT = 2_500_000, 535, 16_000_000, 10_000
_AT_ONCE = 1_000_000
# A place in order of frequency is n·u^p with u uniform: the entity at place x has a share of about x^(1/p − 1).
_HEAD_POWER, _RELATION_POWER, _TAIL_POWER = 2.0, 2.0, 3.0


def write_graph(
    folder: Path, entities: int = ENTITIES, relations: int = RELATIONS, triples: int = TRIPLES,
    held_out: int = HELD_OUT, seed: int = 0,
) -> None:  # fmt: skip
    """train.tsv with `triples` lines, valid.tsv and test.tsv with `held_out` lines each."""
    if triples < entities:
        raise SystemExit(f"{triples} triples are too few for {entities} entities that all occur.")
    generator = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    # Names that do not follow frequency: neighbours in the table are then no neighbours in use.
    names = generator.permutation(entities)
    for name, count, everyone in (("train", triples, True), ("valid", held_out, False), ("test", held_out, False)):
        with pa.OSFile(str(folder / f"{name}.tsv"), "wb") as file:
            for start in range(0, count, _AT_ONCE):
                size = min(_AT_ONCE, count - start)
                heads = _skewed(generator, entities, size, _HEAD_POWER)
                if everyone and start < entities:  # the first lines have each entity as head once
                    first = np.arange(start, min(entities, start + size))
                    heads[: len(first)] = first
                relation_ids = _skewed(generator, relations, size, _RELATION_POWER)
                tails = _skewed(generator, entities, size, _TAIL_POWER)
                _write(file, ("Q", names[heads]), ("P", relation_ids), ("Q", names[tails]))


def _skewed(generator: np.random.Generator, limit: int, count: int, power: float) -> np.ndarray:
    return (limit * generator.random(count) ** power).astype(np.int64)


def _write(file: pa.NativeFile, *columns: tuple[str, np.ndarray]) -> None:
    spelled = [pc.binary_join_element_wise(letter, pc.cast(pa.array(ids), pa.string()), "") for letter, ids in columns]
    table = pa.table(spelled, names=["head", "relation", "tail"])
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pyarrow.csv.write_csv(table, file, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--entities", type=int, default=ENTITIES)
    parser.add_argument("--relations", type=int, default=RELATIONS)
    parser.add_argument("--triples", type=int, default=TRIPLES)
    parser.add_argument("--held-out", type=int, default=HELD_OUT, help="triples of valid and of test")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write_graph(**vars(arguments))


if __name__ == "__main__":
    main()
