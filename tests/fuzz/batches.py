"""Batches of damaged inputs, each in a process of its own. Not in `__main__`, which a spawned process cannot import."""

from __future__ import annotations

import multiprocessing
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import psutil
from tests.faults.works import remembered
from tests.fuzz.inputs import call, complaint, files_of, try_one
from tests.graph.test_mutated import PACKED, mutated, whole
from tests.graph.test_streams import TEXTS

from transher.answering.fitting import fit_judge
from transher.runs import judging

SECONDS = 120  # of the processor that one input may take: other programs may be busy too
WAITING = 3600  # seconds of the clock, for one that does nothing and does not end
MEMORY = 6 << 30


class Case(NamedTuple):
    kind: str  # of the run or folder, or "graph"
    name: str  # of the file, or the ending of a graph
    seed: int


def cases(runs: dict[str, Path], count: int) -> list[Case]:
    """As many inputs as asked for, evenly over files and formats."""
    places = [(kind, str(name)) for kind, run in runs.items() for name in files_of(run)]
    places += [("graph", ending) for ending in (*TEXTS, *PACKED, ".parquet")]
    return [Case(*places[number % len(places)], number // len(places)) for number in range(count)]


def tell(case: Case, runs: dict[str, Path], place: Path) -> str:
    if case.kind != "graph":
        return try_one(case.kind, runs, place, Path(case.name), case.seed)
    path = place / f"graph{case.name}"
    path.write_bytes(mutated(whole(case.name, place), random.Random(f"{case.name} {case.seed}")))
    return complaint(call("stats", path))


def work(batch: list[Case], runs: dict[str, Path], line: multiprocessing.connection.Connection) -> None:
    """In a process of its own with bounded memory: whatever ends it is the fault of the input at hand."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # What follows the reading of a training that is resumed takes longer than all else, and is the same each time.
    judged = patch.object(judging, "fit_judge", remembered(fit_judge))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place, judged:
        for case in batch:
            line.send(tell(case, runs, Path(place)))


def _in_time(line: multiprocessing.connection.Connection, process: psutil.Process) -> bool:
    """Whether there is an answer, or the end of the process, before the input at hand has taken too long."""
    end, before = time.monotonic() + WAITING, sum(process.cpu_times()[:2])
    while not line.poll(2):
        if sum(process.cpu_times()[:2]) - before > SECONDS or time.monotonic() > end:
            return False
    return True


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
                if not _in_time(here, psutil.Process(process.pid)):
                    told.append("hang")
                    break
                told.append(here.recv())
        except EOFError:
            process.join()
            told.append(f"crash {process.exitcode}")
        process.kill()
        process.join()
    return told
