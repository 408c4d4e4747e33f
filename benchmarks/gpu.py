"""`python -m benchmarks.gpu [--compile]`: the tables of `make bench` on this machine's GPU, against the authors'
formulation, `torch.compile` and PyKEEN on the same GPU; or, without a GPU, what the kernels compile to.

Writes results/gpu-<name of the GPU>.json, whose parts are as in results/benchmarks.json, or results/gpu-code.json.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks import machine, ranking, tables, top
from benchmarks.formulations import CrossAlone
from benchmarks.graphs import graph_like, paper_recipe
from benchmarks.settings import Settings, say
from benchmarks.step import BATCH, COMPILED, NEGATIVES, sides
from benchmarks.timing import DeviceMemory, PeakMemory, in_turns
from transher import devices, kernels
from transher.devices import Device
from transher.graph.graph import Graph
from transher.kernels import gpu as kernels_of_gpu
from transher.training.trainer import Trainer

RESULTS = Path(__file__).parent.parent / "results"
SHAPES = (1500, 512)
SECONDS = 600.0
ENTITIES, DIMENSIONS = 2_500_000, 200  # of the table whose best answers are sought: 2 GB
# Benchmark, k, and test triples that PyKEEN ranks: enough to fill a GPU several times.
RANKED = (("fb15k-237", 1500, 1000), ("db100k", 500, 0))
PYKEEN_BATCH = 32  # its scores take batch × entities × k numbers, several times: 9 GB at k 1500
# Multiply-adds, or what takes as long, of an element: the ideal of the machine code, which benchmarks/gpu_code.py has.
OPERATIONS = {"forward": 2, "backward": 7}
_PRODUCT, _READ = 8192, 1 << 28  # rows and columns of a matrix product, and numbers that are read and copied


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--compile", action="store_true", help="compile for five targets; needs no GPU")
    if parser.parse_args().compile:
        write("gpu-code", compiled())
        publish()
    elif not torch.cuda.is_available():
        sys.exit("There is no GPU here that torch can use: nothing is measured. --compile needs none.")
    else:
        name = "gpu-" + re.sub(r"\W+", "-", torch.cuda.get_device_name()).strip("-").lower()
        measured("cuda", lambda result: write(name, result))
        publish()


def write(name: str, result: dict[str, Any]) -> None:
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"wrote {RESULTS.name}/{path.name}")


def publish() -> None:
    """Put what was measured into the document."""
    if tables.rewrite(RESULTS.parent / "docs" / "performance.md", tables.read_results(RESULTS)):
        print("rewrote docs/performance.md")


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


def measured(device: Device, keep: Callable[[dict[str, Any]], Any]) -> None:
    """The parts of `make bench` that have to do with a GPU, kept one by one: a failure costs those that come later."""
    triton = triton_version() if kernels_of_gpu.module else "none"
    result: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "triton": triton}
    parts: dict[str, Callable[[Device, Settings], dict[str, Any]]] = {
        "step": step_on,
        "peak": peak_on,
        "ranking": ranking_on,
        "top": top_on,
    }
    for name, part in parts.items():
        before, begun = machine.moment(), time.monotonic()
        found = part(device, Settings(quick=False, seconds=SECONDS))
        result[name] = found | {"measured": _measured(before, begun)}
        keep(result)


def step_on(device: Device, settings: Settings) -> dict[str, Any]:
    """As benchmarks/step.py: the whole step, the kernels alone, and the others' ways to take it."""
    graph, title = graph_like("fb15k-237")
    shapes: list[dict[str, Any]] = []
    for k in SHAPES:
        say(f"a training step at k {k}")
        share = settings.left / (len(SHAPES) - len(shapes))
        taken = sides_on(device, graph, k)
        shapes.append({"k": k, "sides": in_turns(taken, settings, share, compiled=COMPILED)})
    return {"graph": title, "batch": BATCH, "negatives": NEGATIVES, "shapes": shapes}


def sides_on(device: Device, graph: Graph, k: int) -> dict[str, Callable[[], Any]]:
    """Steps on a device; on any, so that a test can run them where there is no GPU."""
    free = devices.free_bytes(torch.device(device)) if device != "cpu" else sys.maxsize
    return synchronised(device, sides(graph, k, device, free))


def peak_on(device: Device, settings: Settings) -> dict[str, Any]:
    """The kernels, and what they can be held against: a product of float32 matrices, by the vendor's library, and what
    the memory gives."""
    say(f"kernels alone at {BATCH} × {NEGATIVES} × {SHAPES[0]}")
    taken = kernels_on(device, (BATCH, NEGATIVES, SHAPES[0]), _PRODUCT, _READ)
    times = in_turns(taken, settings, settings.left, rounds=8)
    elements = BATCH * NEGATIVES * SHAPES[0]
    speed = {way: elements / times[way]["best"] for way in OPERATIONS}
    multiply_adds = _PRODUCT**3 / times["product"]["best"]
    return {
        "shape": [BATCH, NEGATIVES, SHAPES[0]],
        "operations": OPERATIONS,
        "multiply_adds_per_second": multiply_adds,
        "elements_per_second": speed,
        "share_of_multiply_add": {way: speed[way] * count / multiply_adds for way, count in OPERATIONS.items()},
        "read_bytes_per_second": 4 * _READ / times["read"]["best"],
        "copy_bytes_per_second": 8 * _READ / times["copy"]["best"],
        "times": times,
    }


def kernels_on(device: Device, shape: tuple[int, int, int], product: int, read: int) -> dict[str, Callable[[], Any]]:
    """Distances of batch × negatives × k, and their gradients alone; a product of so many rows and columns; and so many
    numbers read and copied."""
    there = torch.device(device)
    cross = CrossAlone(kernels.scaled_l1_cross, *shape, there)
    forward = [tensor.detach() for tensor in cross.inputs]
    distances = kernels.scaled_l1_cross(*cross.inputs)
    square, numbers = torch.randn(product, product, device=there), torch.ones(read, device=there)
    target = torch.empty_like(numbers)
    taken: dict[str, Callable[[], Any]] = {
        "forward": lambda: kernels.scaled_l1_cross(*forward),
        "backward": lambda: torch.autograd.grad(distances, cross.inputs, cross.upstream, retain_graph=True),
        "product": lambda: square @ square,
        "read": lambda: numbers.sum(),
        "copy": lambda: target.copy_(numbers),
    }
    return synchronised(device, taken)


def ranking_on(device: Device, settings: Settings) -> dict[str, Any]:
    """As benchmarks/ranking.py: all test triples, against PyKEEN's evaluator on some. The weights are as initialised:
    on a GPU the time does not depend on them."""
    rows = []
    for name, k, beside in RANKED:
        graph, title = graph_like(name)
        rows.append({"graph": title} | ranked_on(device, graph, k, beside, settings))
    return {"rows": rows}


def ranked_on(device: Device, graph: Graph, k: int, beside: int, settings: Settings) -> dict[str, Any]:
    """All test triples of a graph ranked on a device, and `beside` of them by PyKEEN there."""
    there = torch.device(device)
    recipe = paper_recipe(k).with_settings([f"training.device={device}"])
    scorer = Trainer(graph, recipe, Path(tempfile.gettempdir())).scorer
    memory = DeviceMemory(there) if device == "cuda" else PeakMemory()
    row = {"k": k, "weights": "as initialised"} | ranking.ours(scorer, graph, None, settings, memory)
    return row | ranking.beside(row, graph, beside, settings, there, PYKEEN_BATCH)


def top_on(device: Device, settings: Settings) -> dict[str, Any]:
    """As benchmarks/top.py, without faiss, whose package here is that of the CPU."""
    say(f"best answers of {ENTITIES:,} entities at k {DIMENSIONS}")
    times = in_turns(answers_on(device, ENTITIES, DIMENSIONS), settings, settings.left)
    return top.result(ENTITIES, DIMENSIONS, times, None)


def answers_on(device: Device, entities: int, k: int) -> dict[str, Callable[[], Any]]:
    """One query and many at once for the best answers, on a device, and reading the table once."""
    place = devices.Place(torch.device(device), torch.device(device), "measured")
    table, anchors, relations, scorers = top.queries(entities, k)
    there = {name: scorer.on(place).prepared() for name, scorer in scorers.items()}
    of_device = table.to(device)
    return synchronised(device, top.ours(there, anchors, relations) | {"read": lambda: of_device.sum()})


def synchronised(device: Device, taken: dict[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """The same sides; on a GPU the time of each ends when the GPU is done."""
    return {name: _Synchronised(side) for name, side in taken.items()} if device == "cuda" else taken


class _Synchronised:
    """A side whose time ends when the GPU is done."""

    def __init__(self, side: Callable[[], Any]) -> None:
        self.side = side

    def __call__(self) -> Any:
        found = self.side()
        torch.cuda.synchronize()
        return found


if __name__ == "__main__":
    main()
