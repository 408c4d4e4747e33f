"""Thousands of damaged inputs, with the counts in results/fuzz.json: `make fuzz`. What ends in a traceback, a crash or
too late is printed with its seed, for the corpus."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.batches import cases, through
from tests.fuzz.runs import make_others, make_runs

from transher.analysis.results import commit, machine

RESULTS = Path(__file__).parents[2] / "results" / "fuzz.json"
BATCH = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000)
    count = parser.parse_args().inputs
    start = time.monotonic()
    found: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="fuzz-runs-") as folder:
        runs = make_runs(Path(folder))
        runs |= make_others(Path(folder), runs["vectors"])
        waiting = cases(runs, count)
        for first in range(0, len(waiting), BATCH):
            batch = waiting[first : first + BATCH]
            for case, told in zip(batch, through(batch, runs), strict=True):
                by_kind[case.kind] += 1
                found[told.split(":")[0] if told.startswith(("crash", "hang")) else "wrong" if told else "well"] += 1
                if told:
                    print(*case, told, flush=True)
            record(count, found, by_kind, time.monotonic() - start)  # a run that is stopped has counted these
    raise SystemExit(found["well"] != count)


def record(asked: int, found: Counter[str], by_kind: Counter[str], seconds: float) -> None:
    result = {
        "asked": asked, "inputs": found.total(), "outcomes": dict(sorted(found.items())), "by_kind": dict(by_kind),
        "seconds": round(seconds), "machine": machine(), "commit": commit(),
    }  # fmt: skip
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
