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
from transher.devices import Device
from transher.graph.graph import Graph
from transher.training.trainer import Trainer

BATCH, NEGATIVES = 1024, 256
ELEMENTS = BATCH * NEGATIVES
# Tensors of batch × negatives × k that are alive at once, more or less.
TENSORS = {"eager kernels": 4, "eager": 5, "authors": 6, "pykeen": 7}
COMPILED = ("compiled kernels", "compiled")
SLOW = ("eager", "compiled", "eager kernels")  # left out where time is short


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

        taken = sides(graph, k, "cpu", psutil.virtual_memory().available)
        if settings.quick:
            taken = {name: side for name, side in taken.items() if name not in SLOW}
        in_turns(taken, settings, share, compiled=COMPILED, keep=keep)
    return result


def sides(graph: Graph, k: int, device: Device, free: int) -> dict[str, Callable[[], Any]]:
    """What takes a step on a device with so many free bytes; the most telling first, in case that time runs out."""
    recipe = paper_recipe(k).with_settings([f"training.device={device}"])
    trainer, there = Trainer(graph, recipe, Path(tempfile.gettempdir())), torch.device(device)
    batch, triples = trainer.batches.at(0), torch.from_numpy(graph.train[:BATCH]).long().to(there)
    sizes = len(graph.entities), len(graph.relations), k, NEGATIVES
    tables = trainer.entities, trainer.relations
    shape = BATCH, NEGATIVES, k, there
    sides: dict[str, Callable[[], Any]] = {
        "whole": Steps(trainer),
        "kernels": CrossAlone(kernels.scaled_l1_cross, *shape),
        "compiled kernels": CrossAlone(torch.compile(scaled_l1, dynamic=False), *shape),
        "authors": Lazy(lambda: AuthorsStep(triples, *sizes)),
        "pykeen": Lazy(lambda: PyKeen(graph, k, there).step(BATCH, NEGATIVES)),
        "eager kernels": CrossAlone(scaled_l1, *shape),
        "compiled": SharedSet(batch, *tables, compiled=True),
        "eager": SharedSet(batch, *tables, compiled=False),
    }
    size = 4 * ELEMENTS * k
    for name, count in TENSORS.items():
        if count * size > 0.9 * free:
            say(f"{name}: left out, it needs some {count * size / 1e9:.0f} GB and {free / 1e9:.0f} are free")
            del sides[name]
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
