"""Write the lock files: versions of constraints.txt with the SHA-256 of each of their files, as the package index has
them. requirements.lock has what it takes to build, use and serve, requirements-dev.lock all but the GPU. A build of
torch for CPUs in a folder of PIP_FIND_LINKS has a lock of its own, requirements-cpu.lock. What needs what is read from
the environment that this runs in:

    make lock
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pip._internal.models.index import PyPI
from pip._vendor.packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
CONSTRAINTS, LOCK, DEV_LOCK = ROOT / "constraints.txt", ROOT / "requirements.lock", ROOT / "requirements-dev.lock"
CPU_LOCK = ROOT / "requirements-cpu.lock"
HEAD = (
    "# Made by scripts/make_lock.py from constraints.txt: with --require-hashes, pip takes no other file than these.\n"
)
BUILD = ("cmake", "nanobind", "ninja", "scikit-build-core")
EXTRA = "serve"
GPU = "triton"  # of the extra gpu, and a gigabyte: installed where it is asked for
_LINK = re.compile(r'href="[^"]*?([^/"#]+)#sha256=([0-9a-f]{64})"')


def canonical(name: str) -> str:
    """A name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    """Versions by name, as constraints.txt has them."""
    lines = [line for line in CONSTRAINTS.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def index_url() -> str:
    """The index that pip is set to use."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return told or str(PyPI.simple_url)


def is_version(file: str, name: str, version: str) -> bool:
    """Whether a file is a wheel or a source archive of a version, of whichever build."""
    stem = re.sub(r"(\.tar\.gz|\.zip)$", "", file)
    spelled = re.escape(canonical(name)).replace(r"\-", "[-_.]+")
    return re.match(rf"{spelled}-{re.escape(version)}(\+[^-]*)?(-.*\.whl)?$", stem, re.IGNORECASE) is not None


def hashes(name: str, version: str, index: str) -> set[str]:
    request = urllib.request.Request(f"{index.rstrip('/')}/{canonical(name)}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=120) as response:
        files = _LINK.findall(response.read().decode())
    found = {digest for file, digest in files if is_version(urllib.parse.unquote(file), name, version)}
    return found | {hashlib.sha256(path.read_bytes()).hexdigest() for path in local_files(name, version)}


def local_files(name: str, version: str) -> Iterator[Path]:
    for folder in os.environ.get("PIP_FIND_LINKS", "").split():
        if Path(folder).is_dir():
            yield from (path for path in Path(folder).iterdir() if is_version(path.name, name, version))


def needed(name: str, extra: str = "") -> set[str]:
    """All that a package needs, and what that needs in turn, as this environment has them."""
    found: set[str] = set()
    waiting = [(name, extra)]
    while waiting:
        for line in importlib.metadata.requires(waiting[0][0]) or ():
            requirement = Requirement(line)
            wanted = requirement.marker is None or requirement.marker.evaluate({"extra": waiting[0][1]})
            if wanted and canonical(requirement.name) not in found:
                found.add(canonical(requirement.name))
                waiting.append((requirement.name, ""))
        del waiting[0]
    return found


def main() -> None:
    versions, index = pinned(), index_url()
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(versions, pool.map(lambda name: hashes(name, versions[name], index), versions), strict=True))
    used = {*BUILD, *needed("transher"), *needed("transher", EXTRA)}.union(*map(needed, BUILD))
    write(LOCK, {name: own for name, own in found.items() if canonical(name) in used}, versions)
    write(DEV_LOCK, {name: own for name, own in found.items() if name != GPU}, versions)
    builds = {
        hashlib.sha256(path.read_bytes()).hexdigest() for path in local_files("torch", f"{versions['torch']}+cpu")
    }
    if builds:
        write(CPU_LOCK, {"torch": builds}, {"torch": f"{versions['torch']}+cpu"})


def write(path: Path, found: dict[str, set[str]], versions: dict[str, str]) -> None:
    lines = [HEAD]
    for name, own in found.items():
        version = versions[name]
        if not own:
            raise SystemExit(f"{name} {version} has no file in the index.")
        lines.append(
            " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in sorted(own))]) + "\n"
        )
    path.write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    main()
