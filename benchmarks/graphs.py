"""The graphs to measure on: the benchmarks where they are at hand, else random graphs of their size."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.settings import say
from transher.graph.benchmarks import locate, open_benchmark
from transher.graph.catalogue import BENCHMARKS
from transher.graph.graph import Graph
from transher.graph.vocabulary import Vocabulary
from transher.training.recipe import Recipe
from transher.training.trainer import Trainer

TITLES = {"fb15k-237": "FB15k-237", "db100k": "DB100K"}


def graph_like(name: str) -> tuple[Graph, str]:
    """The benchmark `name`, or a random graph as large, and which of the two it is."""
    if locate(name) is not None:
        return open_benchmark(name), TITLES[name]
    size = BENCHMARKS[name]
    say(f"{name} is not here (TRANSHER_DATA): a random graph of its size instead")
    splits = random_triples(size.entities, size.relations, size.train + size.valid + size.test)
    bounds = [size.train, size.train + size.valid]
    return graph_of(
        size.entities, size.relations, *np.split(splits, bounds)
    ), f"a random graph of {TITLES[name]}'s size"


def random_triples(entities: int, relations: int, count: int, seed: int = 0) -> NDArray[np.int32]:
    """(count, 3): some entities and relations far more frequent than others."""
    generator = np.random.default_rng(seed)
    columns = [
        (limit * generator.random(count) ** power).astype(np.int32)
        for limit, power in ((entities, 2), (relations, 2), (entities, 3))
    ]
    return np.stack(columns, 1)


def graph_of(entities: int, relations: int, *splits: NDArray[np.int32]) -> Graph:
    train, valid, test = (np.ascontiguousarray(part, np.int32) for part in splits)
    return Graph(
        "random",
        Vocabulary("entity", pa.array([f"e{i:08}" for i in range(entities)])),
        Vocabulary("relation", pa.array([f"r{i:04}" for i in range(relations)])),
        train,
        valid,
        test,
    )


def paper_recipe(k: int, **training: Any) -> Recipe:
    """TranSHER with the paper's batch and negatives."""
    return Recipe.parse(
        {"model": {"name": "transher", "k": k}, "training": {"batch": 1024, "negatives": 256, **training}}
    )


def trained(graph: Graph, k: int, seconds: float, steps: int) -> tuple[Trainer, int]:
    """A training cut short: weights as they are in practice, more or less. Gives it and its steps."""
    trainer = Trainer(graph, paper_recipe(k, lr=2e-3, schedule="constant"), Path(tempfile.gettempdir()))
    end, step = time.monotonic() + seconds, 0
    while step < steps and time.monotonic() < end:
        trainer.train_step(trainer.batches.at(step), step)
        step += 1
    return trainer, step
