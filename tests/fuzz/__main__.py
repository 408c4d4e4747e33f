"""Thousands of damaged inputs, with the counts in results/fuzz.json: `make fuzz`. What ends in a traceback, a crash or
too late is printed with its seed, for the corpus."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.inputs import call, complaint, files_of, try_run
from tests.fuzz.runs import make_runs
from tests.graph.test_mutated import PACKED, mutated, whole
from tests.graph.test_streams import TEXTS

from transher.analysis.results import commit, machine

RESULTS = Path(__file__).parents[2] / "results" / "fuzz.json"
SECONDS = 120  # that one input may take on a busy machine
MEMORY = 6 << 30
BATCH = 200


class Case(NamedTuple):
    kind: str  # of the run, or "graph"
    name: str  # of the file, or the ending of a graph
    seed: int


def cases(runs: dict[str, Path], count: int) -> list[Case]:
    """As many inputs as asked for, evenly over files and formats."""
    places = [(kind, str(name)) for kind, run in runs.items() for name in files_of(run)]
    places += [("graph", ending) for ending in (*TEXTS, *PACKED, ".parquet")]
    return [Case(*places[number % len(places)], number // len(places)) for number in range(count)]


def tell(case: Case, runs: dict[str, Path], place: Path) -> str:
    if case.kind != "graph":
        return try_run(runs[case.kind], runs["vectors"], place, Path(case.name), case.seed)
    path = place / f"graph{case.name}"
    path.write_bytes(mutated(whole(case.name, place), random.Random(f"{case.name} {case.seed}")))
    return complaint(call("stats", path))


def work(batch: list[Case], runs: dict[str, Path], line: multiprocessing.connection.Connection) -> None:
    """In a process of its own with bounded memory: whatever ends it is the fault of the input at hand."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        for case in batch:
            line.send(tell(case, runs, Path(place)))


def through(batch: list[Case], runs: dict[str, Path]) -> list[str]:
    """What is wrong with each input of a batch; a crash or a hang ends its process, and another goes on behind it."""
    told: list[str] = []
    while len(told) < len(batch):
        here, there = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("spawn").Process(target=work, args=(batch[len(told) :], runs, there))
        process.start()
        there.close()
        try:
            while len(told) < len(batch):
                if not here.poll(SECONDS):
                    told.append("hang")
                    break
                told.append(here.recv())
        except EOFError:
            process.join()
            told.append(f"crash {process.exitcode}")
        process.kill()
        process.join()
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    count = parser.parse_args().inputs
    start = time.monotonic()
    found: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="fuzz-runs-") as folder:
        runs = make_runs(Path(folder))
        waiting = cases(runs, count)
        for first in range(0, len(waiting), BATCH):
            batch = waiting[first : first + BATCH]
            for case, told in zip(batch, through(batch, runs), strict=True):
                by_kind[case.kind] += 1
                found[told.split(":")[0] if told.startswith(("crash", "hang")) else "wrong" if told else "well"] += 1
                if told:
                    print(*case, told, flush=True)
    result = {
        "inputs": count, "outcomes": dict(found), "by_kind": dict(by_kind),
        "seconds": round(time.monotonic() - start), "machine": machine(), "commit": commit(),
    }  # fmt: skip
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    raise SystemExit(found["well"] != count)


if __name__ == "__main__":
    main()
