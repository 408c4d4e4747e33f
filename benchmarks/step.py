"""The training step at the paper's shape, whole and its kernels alone, against four other ways to take it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch

from benchmarks.formulations import AuthorsStep, CrossAlone, SharedSet, scaled_l1
from benchmarks.graphs import graph_like, paper_recipe
from benchmarks.pykeen_side import PyKeen
from benchmarks.settings import Settings, say
from benchmarks.timing import in_turns
from transher import kernels
from transher.graph.graph import Graph
from transher.training.trainer import Trainer

BATCH, NEGATIVES = 1024, 256
ELEMENTS = BATCH * NEGATIVES
# Tensors of batch × negatives × k that are alive at once, more or less.
TENSORS = {"eager kernels": 4, "eager": 5, "authors": 6, "pykeen": 7}


def measure(settings: Settings) -> dict[str, Any]:
    graph, title = graph_like("fb15k-237")
    result: dict[str, Any] = {"graph": title, "batch": BATCH, "negatives": NEGATIVES, "shapes": []}
    shapes = (256,) if settings.quick else (1500, 512)
    for k in shapes:
        share = settings.left * (1.0 if k == shapes[-1] else 0.7)
        say(f"a training step at batch {BATCH}, {NEGATIVES} negatives, k {k}, at most {share:.0f} s")
        shape: dict[str, Any] = {"k": k, "sides": {}}
        result["shapes"].append(shape)

        def keep(sides: dict[str, Any], shape: dict[str, Any] = shape) -> None:
            shape["sides"] = sides
            settings.record(result)

        in_turns(
            _sides(graph, k, settings.quick), settings, share, compiled=("compiled kernels", "compiled"), keep=keep
        )
    return result


def _sides(graph: Graph, k: int, quick: bool) -> dict[str, Callable[[], Any]]:
    """The most telling first, in case that time runs out."""
    trainer = Trainer(graph, paper_recipe(k), Path(tempfile.gettempdir()))
    batch, triples = trainer.batches.at(0), torch.from_numpy(graph.train[:BATCH]).long()
    sizes = len(graph.entities), len(graph.relations), k, NEGATIVES
    tables = trainer.entities, trainer.relations
    sides: dict[str, Callable[[], Any]] = {
        "whole": Steps(trainer),
        "kernels": CrossAlone(kernels.scaled_l1_cross, BATCH, NEGATIVES, k),
        "compiled kernels": CrossAlone(torch.compile(scaled_l1, dynamic=False), BATCH, NEGATIVES, k),
        "authors": Lazy(lambda: AuthorsStep(triples, *sizes)),
        "pykeen": Lazy(lambda: PyKeen(graph, k).step(BATCH, NEGATIVES)),
        "eager kernels": CrossAlone(scaled_l1, BATCH, NEGATIVES, k),
        "compiled": SharedSet(batch, *tables, compiled=True),
        "eager": SharedSet(batch, *tables, compiled=False),
    }
    free, size = psutil.virtual_memory().available, 4 * ELEMENTS * k
    for name, count in TENSORS.items():
        if count * size > 0.9 * free:
            say(f"{name}: left out, it needs some {count * size / 1e9:.0f} GB and {free / 1e9:.0f} are free")
            del sides[name]
    if quick:
        sides = {name: side for name, side in sides.items() if name not in ("eager", "compiled", "eager kernels")}
    return sides


class Steps:
    """The trainer's own steps, one after the other: sampling, pull, scores, loss, gradient, push."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.number = trainer, 0

    def __call__(self) -> None:
        self.trainer.train_step(self.trainer.batches.at(self.number), self.number)
        self.number += 1


class Lazy:
    """Made at its first call, which only warms up."""

    def __init__(self, make: Callable[[], Callable[[], Any]]) -> None:
        self.make = make
        self.call: Callable[[], Any] | None = None

    def __call__(self) -> None:
        self.call = self.call or self.make()
        self.call()
