"""Every fault at every operation of every work, with the counts in results/faults.json: `make faults`. `--every N`
tries each N-th operation, and says so in the file."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.disk import FAULTS, Fault
from tests.faults.works import WORKS, Given, Work, count_operations, quickly, try_fault

from transher.analysis.results import commit, machine

RESULTS = Path(__file__).parents[2] / "results" / "faults.json"


def outcome(work: Work, given: Given, folder: Path, fault: Fault, number: int) -> str:
    try:
        return try_fault(work, given, folder, fault, number)
    except AssertionError:
        traceback.print_exc()
        return "wrong"
    except Exception:
        traceback.print_exc()
        return "stuck"
    finally:
        shutil.rmtree(folder / f"{fault}-{number}", ignore_errors=True)


def through(work: Work, given: Given, every: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="faults-") as place, quickly():
        folder = Path(place)
        count = count_operations(work, given, folder)
        found = {
            fault: Counter(outcome(work, given, folder, fault, number) for number in range(0, count, every))
            for fault in FAULTS
        }
    return {"operations": count, **{fault: dict(sorted(counts.items())) for fault, counts in found.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("works", nargs="*", default=[*WORKS], metavar="WORK", help=", ".join(WORKS))
    chosen = parser.parse_args()
    start = time.monotonic()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        given = Given(Path(folder))
        _ = given.run, given.other
        for name in chosen.works:
            found[name] = through(WORKS[name], given, chosen.every)
            print(name, found[name], flush=True)
            totals = record(found, chosen.every, time.monotonic() - start)
    raise SystemExit(bool(totals["wrong"] or totals["stuck"]))


def record(found: dict[str, dict[str, Any]], every: int, seconds: float) -> Counter[str]:
    """Write what was found so far, and give its totals: a run that is stopped has counted the works before."""
    totals = sum((Counter(found[name][fault]) for name in found for fault in FAULTS), Counter[str]())
    result = {
        "every": every, "faults": totals.total(), "outcomes": dict(sorted(totals.items())), "works": found,
        "not_run": sorted(set(WORKS) - set(found)), "seconds": round(seconds), "machine": machine(), "commit": commit(),
    }  # fmt: skip
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return totals


if __name__ == "__main__":
    main()
