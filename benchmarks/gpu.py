"""`python -m benchmarks.gpu [--compile]`: steps, ranking and best answers on this machine's GPU, against the
authors' formulation and PyKEEN on the same GPU; or, without a GPU, what the kernels compile to.

Writes results/gpu-<name of the GPU>.json, or results/gpu-code.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine, top
from benchmarks.graphs import graph_like
from benchmarks.pykeen_side import PyKeen
from benchmarks.settings import Settings, say
from benchmarks.step import BATCH, COMPILED, NEGATIVES, Lazy, Steps, sides
from benchmarks.timing import in_turns
from transher import devices
from transher.devices import Device
from transher.evaluation.ranking import rank
from transher.graph.graph import Graph
from transher.kernels import gpu as kernels_of_gpu

RESULTS = Path(__file__).parent.parent / "results"
SHAPES = (1500, 512)
SECONDS = 600.0
RANKED = 1000  # test triples
ENTITIES, DIMENSIONS = 2_500_000, 200  # of the table whose best answers are sought: 2 GB
PYKEEN_BATCH = 32  # its scores take batch × entities × k numbers, several times: 9 GB at k 1500


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--compile", action="store_true", help="compile for five targets; needs no GPU")
    if parser.parse_args().compile:
        write("gpu-code", compiled())
    elif not torch.cuda.is_available():
        sys.exit("There is no GPU here that torch can use: nothing is measured. --compile needs none.")
    else:
        write("gpu-" + re.sub(r"\W+", "-", torch.cuda.get_device_name()).strip("-").lower(), measured())


def write(name: str, result: dict[str, Any]) -> None:
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"wrote {path.relative_to(RESULTS.parent)}")


def compiled() -> dict[str, Any]:
    """Registers, spills and instructions of every kernel on every target, beside the ideal."""
    from benchmarks.gpu_code import LOOPS, TARGETS, compile_for
    from benchmarks.gpu_code import kernels as all_kernels

    found: dict[str, Any] = {}
    before, begun = machine.moment(), time.monotonic()
    for name, kernel in all_kernels().items():
        loop = LOOPS.get(name)
        limits = {} if loop is None else {"ideal_per_element": loop.ideal, "most_per_element": loop.most}
        found[name] = limits | {target: asdict(compile_for(name, kernel, target)) for target in TARGETS}
        say(f"{name}: " + ", ".join(f"{target} {found[name][target]['per_element'] or '–'}" for target in TARGETS))
    return {"triton": triton_version(), "kernels": found, "measured": _measured(before, begun)}


def triton_version() -> str:
    """As the module says it: on AMD's GPUs it comes in a package of another name."""
    return str(importlib.import_module("triton").__version__)


def _measured(before: dict[str, Any], begun: float) -> dict[str, Any]:
    """When, on what and for how long, as in the other results."""
    return {
        **before,
        "load_after": [round(value, 2) for value in os.getloadavg()],
        "seconds": round(time.monotonic() - begun, 1),
        "machine": machine.describe(),
    }


def measured() -> dict[str, Any]:
    """The table of `make bench`, on the GPU."""
    before, begun = machine.moment(), time.monotonic()
    graph, title = graph_like("fb15k-237")
    result: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "triton": triton_version() if kernels_of_gpu.module else None,
        "graph": title,
        "batch": BATCH,
        "negatives": NEGATIVES,
        "ranked": RANKED,
        "shapes": [],
    }
    for k in SHAPES:
        say(f"a training step and a ranking at k {k}")
        settings = Settings(quick=False, seconds=SECONDS)
        taken: dict[str, Callable[[], Any]] = {
            name: _Synchronised(side) for name, side in sides_on("cuda", graph, k).items()
        }
        result["shapes"].append({"k": k, "sides": in_turns(taken, settings, SECONDS, compiled=COMPILED)})
    say(f"best answers of {ENTITIES:,} entities at k {DIMENSIONS}")
    taken = {name: _Synchronised(side) for name, side in answers_on("cuda", ENTITIES, DIMENSIONS).items()}
    settings = Settings(quick=False, seconds=SECONDS)
    result["top"] = {"entities": ENTITIES, "k": DIMENSIONS, "sides": in_turns(taken, settings, SECONDS)}
    return result | {"measured": _measured(before, begun)}


def answers_on(device: Device, entities: int, k: int) -> dict[str, Callable[[], Any]]:
    """One query and many at once for the best answers, on a device, and reading the table once."""
    place = devices.Place(torch.device(device), torch.device(device), "measured")
    table, anchors, relations, scorers = top.queries(entities, k)
    there = {name: scorer.on(place) for name, scorer in scorers.items()}
    of_device = table.to(device)
    return top.ours(there, anchors, relations) | {"read": lambda: of_device.sum()}


def sides_on(device: Device, graph: Graph, k: int) -> dict[str, Callable[[], Any]]:
    """Steps and rankings on a device; on any, so that a test can run them where there is no GPU."""
    there = torch.device(device)
    free = devices.free_bytes(there) if device != "cpu" else sys.maxsize
    taken = sides(graph, k, device, free)
    whole = taken["whole"]
    assert isinstance(whole, Steps)
    rankings: dict[str, Callable[[], Any]] = {
        "ranking": lambda: rank(whole.trainer.scorer, graph.test[:RANKED], graph.known),
        "ranking, pykeen": Lazy(lambda: PyKeen(graph, k, there).ranking(RANKED, PYKEEN_BATCH)),
    }
    return taken | rankings


class _Synchronised:
    """A side whose time ends when the GPU is done."""

    def __init__(self, side: Callable[[], Any]) -> None:
        self.side = side

    def __call__(self) -> None:
        self.side()
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
