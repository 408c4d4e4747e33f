"""The native module built with each sanitizer, under its tests and those of training, for every SIMD back end that this
machine has: `make sanitize`. What ran and what was reported is in results/sanitize.json."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from transher.analysis.results import commit, machine

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "sanitize.json"
BUILD = ROOT / "build" / "sanitize"
SUPPRESSIONS = Path(__file__).with_name("thread.txt")
# The library that the interpreter loads first, what a report says, and options. Python frees little at its end, so that
# leaks are not looked for; more than 4 GB at once is asked for by nobody who checks sizes.
SANITIZERS: dict[str, tuple[str, str, str]] = {
    "address": ("libasan.so", "ERROR: AddressSanitizer", "ASAN_OPTIONS=detect_leaks=0:max_allocation_size_mb=4096"),
    "undefined": ("libubsan.so", "runtime error:", "UBSAN_OPTIONS=print_stacktrace=1"),
    "thread": ("libtsan.so", "WARNING: ThreadSanitizer", f"TSAN_OPTIONS=exitcode=0:suppressions={SUPPRESSIONS}"),
}
# An editable install finds its own sources before all others. Python runs this file first, and looks where it is told.
FINDS_THE_COPY = """import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
"""
# The kernels' tests go through all back ends by themselves; those of training are repeated with each.
KERNELS = ("tests/kernels", "--ignore=tests/kernels/test_gpu.py", "--ignore=tests/kernels/test_gpu_code.py")
TRAINING = ("test_step.py", "test_softmax.py", "test_table.py", "test_trainer.py")
THREADS = "4"  # in a test: as many as find a race


def build(sanitizer: str) -> Path:
    """A copy of the package with the native module of a sanitizer; gives the folder to import it from."""
    folder = BUILD / sanitizer
    package = folder / "src" / "transher"
    defined = {"TRANSHER_SANITIZE": sanitizer, "Python_EXECUTABLE": sys.executable}
    options = [f"-D{name}={value}" for name, value in defined.items()]
    cmake = [sys.executable, "-m", "cmake"]
    subprocess.run([*cmake, "-S", ROOT, "-B", folder / "cmake", *options], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([*cmake, "--build", folder / "cmake", "--target", "_native"], check=True)
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "transher", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(next((folder / "cmake").glob("_native*.so")), package / "kernels")
    (package.parent / "sitecustomize.py").write_text(FINDS_THE_COPY, "utf-8")
    return folder / "src"


def library(name: str) -> str:
    """Where the compiler has a library."""
    found = subprocess.run([os.environ.get("CXX", "g++"), f"-print-file-name={name}"], capture_output=True, check=True)
    return found.stdout.decode().strip()


def environment(sanitizer: str, source: Path, backend: str) -> dict[str, str]:
    runtime, _, options = SANITIZERS[sanitizer]
    key, _, value = options.partition("=")
    return os.environ | {
        "PYTHONPATH": f"{source}{os.pathsep}{ROOT}",
        "LD_PRELOAD": f"{library(runtime)} {library('libstdc++.so.6')}",
        key: f"{value}:log_path={BUILD / sanitizer / 'report'}",
        "TRANSHER_SIMD": backend,
        "TRANSHER_TEST_THREADS": THREADS,
        # There are more threads of torch than cores: those that wait would keep the others from computing.
        "OMP_WAIT_POLICY": "passive",
        "PYTHONMALLOC": "malloc",  # whose blocks the sanitizers know
    }


def backends(sanitizer: str, source: Path) -> list[str]:
    """The back ends of the module that was built; an error if it is not the one that Python imports."""
    asked = "from transher.kernels import native as n; print(n.module.__file__, *n.module.backends())"
    told = subprocess.run(
        [*command(), "-c", asked], capture_output=True, text=True, check=True, env=environment(sanitizer, source, "")
    )
    path, *names = told.stdout.split()
    if not Path(path).is_relative_to(source):
        raise SystemExit(f"{path} is imported, and not what was built.")
    return names


def command() -> list[str]:
    """Python, at addresses that are not random: ThreadSanitizer needs some for itself."""
    return ["setarch", "-R", sys.executable]


def run(sanitizer: str, source: Path, backend: str, tests: tuple[str, ...]) -> dict[str, Any]:
    """One run of tests: how they ended, and how much was reported of the native module, and of all else: torch, which
    is not built with the sanitizer."""
    start = time.monotonic()
    for old in (BUILD / sanitizer).glob("report.*"):
        old.unlink()
    pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", *tests]
    done = subprocess.run(
        [*command(), *pytest], cwd=ROOT, env=environment(sanitizer, source, backend), capture_output=True, text=True
    )
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr[-500:]]
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", last[0])}
    told = "".join(path.read_text(errors="replace") for path in sorted((BUILD / sanitizer).glob("report.*")))
    reports = (told + done.stderr).split(SANITIZERS[sanitizer][1])[1:]
    ours = [report for report in reports if "_native" in report or "/native/" in report]
    if ours or done.returncode:
        print(done.stdout[-8000:], done.stderr[-4000:], *ours[:5], sep="\n")
    outcome = {"exit_code": done.returncode, **counts, "reports": len(ours), "elsewhere": len(reports) - len(ours)}
    return outcome | {"seconds": round(time.monotonic() - start)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sanitizers", nargs="*", default=[*SANITIZERS], metavar="SANITIZER", help=", ".join(SANITIZERS))
    found: dict[str, dict[str, Any]] = {}
    for sanitizer in parser.parse_args().sanitizers:
        source = build(sanitizer)
        runs: dict[str, tuple[str, tuple[str, ...]]] = {"kernels, every back end": ("", KERNELS)}
        for name in dict.fromkeys(backends(sanitizer, source)):
            runs[f"training, {name}"] = name, tuple(f"tests/training/{test}" for test in TRAINING)
        for title, (backend, tests) in runs.items():
            found.setdefault(sanitizer, {})[title] = run(sanitizer, source, backend, tests)
            print(sanitizer, title, found[sanitizer][title], flush=True)
            result = record(found)
    raise SystemExit(bool(result["reports"] or result["failed"]))


def record(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Write what was found so far: a run that is stopped has counted what ran before."""
    compiler = subprocess.run([os.environ.get("CXX", "g++"), "--version"], capture_output=True, text=True, check=True)
    result = {
        "reports": sum(one["reports"] for runs in found.values() for one in runs.values()),
        "failed": sum(one["exit_code"] != 0 for runs in found.values() for one in runs.values()),
        "sanitizers": found, "not_run": sorted(set(SANITIZERS) - set(found)), "threads": int(THREADS),
        "compiler": compiler.stdout.splitlines()[0], "machine": machine(), "commit": commit(),
    }  # fmt: skip
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return result


if __name__ == "__main__":
    main()
