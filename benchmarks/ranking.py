"""Full filtered ranking against PyKEEN's evaluator, as time per triple, and the memory that it takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.graphs import graph_like, trained
from benchmarks.pykeen_side import PyKeen
from benchmarks.settings import Settings, say
from benchmarks.timing import DeviceMemory, PeakMemory
from transher.evaluation.ranking import rank
from transher.graph.graph import SIDES, Graph
from transher.models.embeddings import Embeddings
from transher.runs.run import load

PYKEEN_BATCH = 8  # its scores take batch × entities × k numbers, several times


def measure(settings: Settings) -> dict[str, Any]:
    result: dict[str, Any] = {"rows": []}
    # Benchmark, k, seconds and steps of training first, test triples (None: all), and PyKEEN's.
    plans = (
        [("fb15k-237", 512, 8, 200, 1000, 16)]
        if settings.quick
        else [("fb15k-237", 1500, 75, 1500, None, 32), ("db100k", 500, 45, 1500, 5000, 0)]
    )
    for name, k, seconds, steps, count, others in plans:
        if settings.left < 30 and result["rows"]:
            say(f"{name}: no time left")
            break
        graph, title = graph_like(name)
        trainer, done = trained(graph, k, min(seconds, settings.left / 4), steps)
        row: dict[str, Any] = {"graph": title, "k": k, "weights": f"trained for {done} steps"}
        row |= ours(trainer.scorer, graph, count, settings, PeakMemory())
        del trainer
        result["rows"].append(row | beside(row, graph, others, settings, torch.device("cpu"), PYKEEN_BATCH))
        settings.record(result)
    if settings.run is not None:
        result["rows"].append(_finished_run(settings.run, settings))
    return settings.record(result)


def _finished_run(folder: Path, settings: Settings) -> dict[str, Any]:
    run = load(folder)
    scorer, recipe = run.trained("a ranking")
    row = {
        "graph": run.graph.name,
        "k": recipe.model.k,
        "weights": f"trained for {recipe.training.steps} steps",
    }
    return row | ours(scorer, run.graph, 1000 if settings.quick else None, settings, PeakMemory())


def ours(
    scorer: Embeddings, graph: Graph, count: int | None, settings: Settings, memory: PeakMemory | DeviceMemory
) -> dict[str, Any]:
    """Rank the test triples, or `count` of them, and fewer if the time that is left asks for it."""
    start = time.perf_counter()
    known = graph.known
    for side in SIDES:
        known.answers(side)  # made here, and not while ranking
    indexing = time.perf_counter() - start
    order = np.random.default_rng(0).permutation(len(graph.test))
    trial = np.sort(order[:500])
    start = time.perf_counter()
    rank(scorer, graph.test[trial], known)
    per_triple = (time.perf_counter() - start) / len(trial)
    wanted = min(count or len(order), max(500, int(settings.left / 3 / per_triple)), len(order))
    chosen = np.sort(order[:wanted])
    with memory:
        start = time.perf_counter()
        ranks = rank(scorer, graph.test[chosen], known)
        seconds = time.perf_counter() - start
    elements = 2 * len(chosen) * scorer.entity_count * scorer.model.entity_width
    say(f"ours: {len(chosen)} triples in {seconds:.1f} s, {memory.above / 1e6:.0f} MB above the table")
    return {
        "entities": scorer.entity_count,
        "triples": len(chosen),
        "of": len(graph.test),
        "indexing_seconds": indexing,
        "seconds": seconds,
        "seconds_per_triple": seconds / len(chosen),
        "elements_per_second": elements / seconds,
        "memory_above_table": memory.above,
        "table": scorer.entity_weights.nbytes,
        "mrr": float((1 / ranks.realistic).mean()),
    }


def beside(
    row: dict[str, Any], graph: Graph, count: int, settings: Settings, device: torch.device, batch: int
) -> dict[str, Any]:
    """PyKEEN's evaluator on a sample of test triples, if any, and how many times our row is faster."""
    if not count:
        return {}
    theirs = _pykeen(graph, row["k"], count, settings, device, batch)
    if "seconds" not in theirs:
        return {"pykeen": theirs}
    return {"pykeen": theirs, "faster": theirs["seconds_per_triple"] / row["seconds_per_triple"]}


def _pykeen(graph: Graph, k: int, count: int, settings: Settings, device: torch.device, batch: int) -> dict[str, Any]:
    """Twice, if there is time for it."""
    try:
        evaluate = PyKeen(graph, k, device).ranking(count, batch)
        times: list[float] = []
        for _ in range(2):
            if times and times[0] > settings.left - 30:
                break
            start = time.perf_counter()
            evaluate()
            times.append(time.perf_counter() - start)
    except (ImportError, MemoryError, RuntimeError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    say(f"PyKEEN: {count} triples in {min(times):.1f} s")
    return {
        "triples": count,
        "batch": batch,
        "seconds": min(times),
        "seconds_per_triple": min(times) / count,
        "runs": len(times),
    }
