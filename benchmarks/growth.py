"""The whole way on graphs that grow: `python -m benchmarks.growth`, or `make growth`.

From a TSV file: load, index, train some thousand steps, checkpoint, evaluate with sampled candidates. Each size has a
process of its own, so that its peak memory is its own; there it takes turns with a small graph, step by step, so that
noise hits both alike. `--entities 15000 150000` stops short of the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from scripts.make_large_graph import ENTITIES, RELATIONS, TRIPLES, write_graph

from benchmarks.graphs import graph_of, random_triples
from benchmarks.settings import say
from transher.evaluation import evaluate
from transher.files import replacing
from transher.graph import read_graph
from transher.graph.graph import Candidates, Graph
from transher.training.recipe import Recipe
from transher.training.trainer import Trainer

ROOT = Path(__file__).parent.parent
SIZES, SMALL = (15_000, 150_000, ENTITIES), 15_000
K, BATCH, NEGATIVES, CANDIDATES = 200, 1024, 256, 500
DIMENSIONS, POOLS = (64, 128, 200, 512, 1024, 1500), (64, 128, 256, 512, 1024)
TURN = 50  # steps of one graph before it is the other's turn
LIMIT_SECONDS = 1_800  # for one size


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__.partition("\n")[0])
    parser.add_argument("--entities", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "growth.json")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside == "sweeps":
        print(json.dumps(sweeps(arguments.steps)))
    elif arguments.inside:
        print(json.dumps(whole_way(Path(arguments.inside), arguments.steps)))
    else:
        measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    from benchmarks import machine
    from benchmarks.__main__ import publish

    started = machine.moment()
    settings = {"k": K, "batch": BATCH, "negatives": NEGATIVES, "candidates": CANDIDATES, "steps": arguments.steps}
    result: dict[str, Any] = {"settings": settings, "rows": []}
    for entities in sorted(arguments.entities):
        with tempfile.TemporaryDirectory(prefix="transher-growth-") as folder:
            triples = int(entities * TRIPLES / ENTITIES)
            print(f"{entities:,} entities, {triples:,} triples; load {os.getloadavg()[0]:.2f}", flush=True)
            begun = time.monotonic()
            write_graph(Path(folder) / "graph", entities, RELATIONS, triples, held_out=min(10_000, entities))
            say(f"written in {time.monotonic() - begun:.1f} s")
            result["rows"].append(_apart(folder, arguments.steps))
    print("a step against k and against negatives", flush=True)
    result["sweeps"] = _apart("sweeps", arguments.steps)
    result["measured"] = {
        **started,
        "load_after": [round(value, 2) for value in os.getloadavg()],
        "machine": machine.describe(),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"results in {arguments.out}")
    if arguments.out.parent == ROOT / "results":
        publish(arguments.out.parent, quick=False)


def _apart(what: str, steps: int) -> Any:
    """Measure in a process of its own; what it says goes to standard error, its result to standard output."""
    command = [sys.executable, "-m", "benchmarks.growth", "--inside", what, "--steps", str(steps)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def whole_way(folder: Path, steps: int) -> dict[str, Any]:
    """One size, from its files to ranks."""
    mark = time.perf_counter()

    def lap(what: str) -> float:
        nonlocal mark
        seconds, mark = time.perf_counter() - mark, time.perf_counter()
        _note(f"{what}: {seconds:.2f} s, peak so far {_peak_bytes() / 1e9:.2f} GB")
        return seconds

    graph = read_graph(folder / "graph")
    load_seconds = lap(f"load {len(graph.train):,} triples")
    graph = replace(graph, candidates={"test": _draw_candidates(graph)})
    lap("draw candidates")
    trainer = Trainer(graph, _recipe(K, NEGATIVES), folder)
    prepare_seconds = lap("index and tables")
    small = Trainer(_small_graph(), _recipe(K, NEGATIVES), folder)
    times = _in_turns({"step": trainer, "small_step": small}, steps, seconds=300)
    lap(f"{times['step']['steps']} steps of each, {1e3 * times['step']['median']:.1f} ms")
    checkpoints, writes = [], []
    for _ in range(4):  # in turns, and the best of each: a disk is noisier than a processor
        trainer.save()
        checkpoints.append(lap("checkpoint"))
        writes.append(_plain_write(folder, trainer))
        lap("plain write of as much")
    evaluation = evaluate(trainer.scorer, graph, "test", sample=2_000)
    lap("evaluation")
    table = trainer.entities.weight.nbytes
    return {
        "entities": len(graph.entities),
        "triples": len(graph.train),
        "load_seconds": load_seconds,
        "prepare_seconds": prepare_seconds,
        "start_up_seconds": load_seconds + prepare_seconds,
        **times,
        "step_ratio": times["step"]["median"] / times["small_step"]["median"],
        "checkpoint_seconds": min(checkpoints),
        "checkpoint_bytes": sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        "write_seconds": min(writes),
        "evaluation_triples_per_second": len(evaluation.ranks) / 2 / evaluation.seconds,
        "table_bytes": table,
        "peak_bytes": _peak_bytes(),
        "memory_limit": 3.2 * table + 2e9,
    }


def sweeps(steps: int) -> dict[str, list[dict[str, Any]]]:
    """A step on the small graph, against k and against negatives."""
    graph = _small_graph()
    shapes = {
        "dimensions": [(k, _recipe(k, NEGATIVES)) for k in DIMENSIONS],
        "negatives": [(count, _recipe(K, count)) for count in POOLS],
    }
    found = {}
    for name, recipes in shapes.items():
        trainers = {value: Trainer(graph, recipe, Path(tempfile.gettempdir())) for value, recipe in recipes}
        times = _in_turns(trainers, min(steps, 200), seconds=60)
        found[name] = [{"value": value, "step": step} for value, step in times.items()]
        _note(f"{name}: " + ", ".join(f"{value}: {step['median'] * 1e3:.1f} ms" for value, step in times.items()))
    return found


def _in_turns(trainers: dict[Any, Trainer], steps: int, seconds: float) -> dict[Any, dict[str, float]]:
    """Seconds of a step, sampling and all: best, median and mean. The first turn of each warms up. Ends early when it
    has taken `seconds` and all have had two turns."""
    end = time.monotonic() + seconds
    times: dict[Any, list[float]] = {name: [] for name in trainers}
    for first in range(0, steps, TURN):
        if first >= 2 * TURN and time.monotonic() > end:
            break
        for name, trainer in trainers.items():
            for step in range(first, min(first + TURN, steps)):
                start = time.perf_counter()
                trainer.train_step(trainer.batches.at(step), step)
                times[name].append(time.perf_counter() - start)
    late = {name: taken[TURN:] or taken for name, taken in times.items()}
    return {
        name: {"best": min(taken), "median": median(taken), "mean": sum(taken) / len(taken), "steps": len(taken)}
        for name, taken in late.items()
    }


def _draw_candidates(graph: Graph) -> Candidates:
    """Some entities at random for either side of each test triple, as OGB supplies them."""
    shape = (len(graph.test), CANDIDATES)
    draws = np.random.default_rng(0).integers(len(graph.entities), size=(2, *shape), dtype=np.int32)
    return Candidates(*draws)


def _small_graph() -> Graph:
    triples = random_triples(SMALL, RELATIONS, int(SMALL * TRIPLES / ENTITIES))
    return graph_of(SMALL, RELATIONS, triples, triples[:10], triples[:10])


def _recipe(k: int, negatives: int) -> Recipe:
    return Recipe.parse({"model": {"k": k}, "training": {"batch": BATCH, "negatives": negatives}})


def _plain_write(folder: Path, trainer: Trainer) -> float:
    """Seconds to write the checkpoint's bytes and nothing else, to the same disk, flushed as it is, and in the place of
    the bytes of the time before: to free those is a part of replacing them."""
    tables = (trainer.entities, trainer.relations)
    tensors = [tensor for table in tables for tensor in (table.weight, table.weight, *table.state.values())]
    start = time.perf_counter()
    with replacing(folder / "plain.bin") as file:
        for tensor in tensors:
            file.write(tensor.numpy().data)
    return time.perf_counter() - start


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _note(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
