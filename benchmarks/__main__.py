"""`python -m benchmarks [--quick] [--only NAME] [--run FOLDER]`: measure, then write results, pictures and tables.

Each part is measured in a process of its own with a limit of its own, so that one that fails or takes too long costs
the others nothing. The full measurement takes up to twenty minutes on two cores, the quick one up to three; the quick
one leaves what it finds in `build/benchmarks` and the committed figures as they are.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.settings import Settings

ROOT = Path(__file__).parent.parent
# The most seconds for each part: full, quick.
LIMITS = {"peak": (40, 12), "step": (420, 75), "ranking": (480, 45), "top": (140, 20), "loading": (100, 20)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller shapes, at most three minutes")
    parser.add_argument("--only", choices=LIMITS, action="append", help="measure this part; may be repeated")
    parser.add_argument("--run", type=Path, help="also rank with the weights of this finished training")
    parser.add_argument("--tables", action="store_true", help="measure nothing; draw and write from results/")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        measure_inside(arguments)
        return
    out = ROOT / "build" / "benchmarks" if arguments.quick else ROOT / "results"
    if not arguments.tables:
        measure(arguments, out / "benchmarks.json")
    publish(out, arguments.quick)


def measure(arguments: argparse.Namespace, path: Path) -> None:
    from benchmarks import machine

    path.parent.mkdir(parents=True, exist_ok=True)
    # Parts that are not measured now stay as they are, with their own dates.
    results: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    started = time.monotonic()
    for name in arguments.only or LIMITS:
        limit = LIMITS[name][arguments.quick]
        print(f"{name}: at most {limit} s; load {os.getloadavg()[0]:.2f}", flush=True)
        before, begun = machine.moment(), time.monotonic()
        part = run_part(name, limit, arguments)
        part["measured"] = {
            **before,
            "load_after": [round(value, 2) for value in os.getloadavg()],
            "seconds": round(time.monotonic() - begun, 1),
            "machine": machine.describe(),
        }
        if "failed" in part:
            print(f"  {name} failed: {part['failed']}", flush=True)
            if name in results:
                continue  # rather an older figure than none
        results[name] = part
        path.write_text(json.dumps(results, indent=2) + "\n")
    print(f"all in {time.monotonic() - started:.0f} s; results in {path}")


def run_part(name: str, limit: float, arguments: argparse.Namespace) -> dict[str, Any]:
    """One part in its own process; what it has recorded when its time is up counts."""
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "part.json"
        command = [sys.executable, "-m", "benchmarks", "--only", name, "--inside", str(inside)]
        command += ["--seconds", str(0.85 * limit)] + ["--quick"] * arguments.quick
        if arguments.run:
            command += ["--run", str(arguments.run.resolve())]
        # The compiler's helpers would outlive a process that is ended.
        environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
        failed = None
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, timeout=limit)
            if done.returncode:
                failed = f"ended with code {done.returncode}"
        except subprocess.TimeoutExpired:
            failed = f"not done after {limit} s"
        part: dict[str, Any] = json.loads(inside.read_text()) if inside.is_file() else {}
    if failed:
        part |= {"unfinished": failed} if part else {"failed": failed}
    return part


def measure_inside(arguments: argparse.Namespace) -> None:
    (name,) = arguments.only
    faulthandler.dump_traceback_later(1.1 * arguments.seconds)  # where the time went, if it is about to run out
    settings = Settings(arguments.quick, arguments.seconds, arguments.inside, arguments.run)
    importlib.import_module(f"benchmarks.{name}").measure(settings)


def publish(out: Path, quick: bool) -> None:
    """Pictures and tables; after a quick measurement only on the terminal and in `build/`."""
    from benchmarks import pictures, tables

    results = tables.read_results(out)
    for path in pictures.draw(results, out if quick else ROOT / "docs" / "images"):
        print(f"drew {path.relative_to(ROOT)}")
    if quick:
        print("\n" + "\n\n".join(tables.render(name, results) for name in tables.TABLES if name != "growth"))
    elif tables.rewrite(ROOT / "docs" / "performance.md", results):
        print("rewrote docs/performance.md")


if __name__ == "__main__":
    main()
