"""What an installation costs: its size on disk, and how much processor time and how many modules an import takes.

    python -m benchmarks.footprint dist/transher-….whl

installs the wheel into a fresh environment, without a compiler and away from the repository, asks the demo's questions
there, and writes results/footprint.json and the table of docs/install.md. It fails if the package has outgrown LIMIT.
Processor time, since other work on the machine makes everything wait.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import describe, moment
from transher.files import write_json, write_text

ROOT = Path(__file__).parents[1]
RESULT, DOCUMENT = ROOT / "results" / "footprint.json", ROOT / "docs" / "install.md"
LIMIT = 6_000_000  # bytes of the package itself, installed
MODULES = {"import transher": 60, "the command line": 160}  # that an import may load: an import is slow by these
_ROUNDS = 5
_MARKED = re.compile(r"(<!-- table: footprint -->\n).*?(<!-- end -->)", re.S)
_SIZES = """
import json
from importlib.metadata import distributions
sizes = {}
for one in distributions():
    files = [one.locate_file(file) for file in one.files or []]
    sizes[one.metadata["Name"].lower()] = sum(file.stat().st_size for file in files if file.is_file())
print(json.dumps(sizes))
"""
_TIMED = """
import sys, time
before, start = len(sys.modules), time.process_time()
{}
print(time.process_time() - start, len(sys.modules) - before)
"""
IMPORTS = {
    "import transher": "import transher",
    "the command line": "import transher.cli.main",
    "import torch alone": "import torch",
    "transher.train": "import transher; transher.train",
}


def measure(wheel: Path, python: str) -> dict[str, Any]:
    """Sizes in bytes, best times in seconds and loaded modules, in a fresh environment."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "fresh")
        _run([python, "-m", "venv", str(environment)])
        fresh = str(environment / "bin" / "python")
        constraints = str(ROOT / "constraints.txt")
        _run([fresh, "-m", "pip", "install", "--quiet", "--constraint", constraints, str(wheel.resolve())])
        sizes = json.loads(_run([fresh, "-c", _SIZES], folder))
        costs = {name: cost_of_import(fresh, code, folder) for name, code in IMPORTS.items()}
        _demo(fresh, folder)
        return {
            "wheel": wheel.name,
            "wheel_bytes": wheel.stat().st_size,
            "installed_bytes": sizes["transher"],
            "all_bytes": sum(sizes.values()),
            "largest": dict(sorted(sizes.items(), key=lambda item: -item[1])[:6]),
            "seconds": {name: cost[0] for name, cost in costs.items()},
            "modules": {name: cost[1] for name, cost in costs.items()},
            "backend": _run([fresh, "-c", "from transher import kernels; print(kernels.backend())"], folder).strip(),
            "python": _run([fresh, "-c", "import platform; print(platform.python_version())"], folder).strip(),
        }


def cost_of_import(python: str, code: str, folder: str | None = None, rounds: int = _ROUNDS) -> tuple[float, int]:
    """Seconds of processor time, the least of some rounds, and how many modules are loaded then."""
    seconds, modules = zip(
        *(_run([python, "-c", _TIMED.format(code)], folder).split() for _ in range(rounds)), strict=True
    )
    return min(map(float, seconds)), int(modules[0])


def _demo(python: str, folder: str) -> None:
    """A run and an answer, from outside the repository."""
    transher = [python, "-m", "transher"]
    short = ["--set", "training.steps=100", "--set", "model.k=32"]
    _run([*transher, "train", "world", "--model", "transher", "--out", "run", *short], folder)
    asked = _run([*transher, "predict", "run", "--head", "Lima", "--relation", "located_in", "--json"], folder)
    assert json.loads(asked), "the demo has no answers"


def _run(command: Sequence[str], folder: str | None = None) -> str:
    """Output of a command that finds no compiler."""
    environment = {**os.environ, "CC": os.devnull, "CXX": os.devnull, "PYTHONPATH": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def table(found: dict[str, Any]) -> str:
    """Rows of the table, and what they were measured on."""
    sizes = [
        ("the wheel", found["wheel_bytes"]),
        ("the package, installed", found["installed_bytes"]),
        ("with everything that it needs", found["all_bytes"]),
    ]
    rows = [(name, f"{size / 1e6:,.1f} MB") for name, size in sizes]
    for name, seconds in found["seconds"].items():
        rows.append((name, f"{1000 * seconds:,.0f} ms, {found['modules'][name]:,} modules"))
    largest = ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in list(found["largest"].items())[:4])
    measured = found["measured"]
    return (
        "| | |\n|---|---:|\n"
        + "".join(f"| {name} | {value} |\n" for name, value in rows)
        + f"\nThe largest parts: {largest}. Times are processor time. "
        f"Measured by `python -m benchmarks.footprint WHEEL` on {measured['date']} with {found['wheel']}, "
        f"Python {found['python']}, on a machine with a load of {measured['load'][0]:g}.\n"
    )


def with_table(text: str, found: dict[str, Any]) -> str:
    return _MARKED.sub(lambda match: f"{match[1]}{table(found)}{match[2]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the Python to install into")
    parser.add_argument("--check", action="store_true", help="write nothing, only check the limit")
    arguments = parser.parse_args()
    found = measure(arguments.wheel, arguments.python) | {"measured": {**moment(), "machine": describe()}}
    print(json.dumps({key: value for key, value in found.items() if key != "measured"}, indent=2))
    if found["installed_bytes"] > LIMIT:
        sys.exit(f"The package takes {found['installed_bytes']:,} bytes: more than {LIMIT:,}. What has joined it?")
    for name, most in MODULES.items():
        if found["modules"][name] > most:
            sys.exit(f"{name} loads {found['modules'][name]:,} modules: more than {most:,}. Which could come later?")
    if not arguments.check:
        write_json(RESULT, found)
        write_text(DOCUMENT, with_table(DOCUMENT.read_text("utf-8"), found))


if __name__ == "__main__":
    main()
