"""What is installed is what was pinned, and every pin has a hash."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
_OWN = {"transher", "pip", "setuptools", "wheel"}  # this package, and what a new environment begins with
_OF_TORCH = re.compile(r"nvidia-|cuda-|triton")  # what its build for GPUs brings, in versions that it says itself


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(name: str) -> dict[str, str]:
    """Versions by package in constraints.txt or a lock file."""
    found = re.findall(r"^([A-Za-z0-9_.-]+)==([^ \n]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    return {canonical(package): version for package, version in found}


def test_everything_installed_is_pinned() -> None:
    versions = pinned("constraints.txt")
    loose = {
        name
        for installed in importlib.metadata.distributions()
        if (name := canonical(installed.name)) not in _OWN
        and not _OF_TORCH.match(name)
        and versions.get(name) != installed.version.partition("+")[0]
    }
    assert not loose, "add them to constraints.txt and run: make lock"


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock", "requirements-cpu.lock"])
def test_every_pin_of_a_lock_has_hashes(lock: str) -> None:
    released = {name: version.partition("+")[0] for name, version in pinned(lock).items()}
    assert released.items() <= pinned("constraints.txt").items()
    entries = re.split(r"^(?=[A-Za-z0-9])", (ROOT / lock).read_text("utf-8"), flags=re.MULTILINE)[1:]
    assert len(entries) == len(pinned(lock))
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_what_a_lock_installs_compiles_with_a_compiler_alone(lock: str) -> None:
    """A machine or an image that has no CMake gets it from the lock: nothing is fetched beside it."""
    assert {"cmake", "nanobind", "ninja", "scikit-build-core"} <= pinned(lock).keys()


def test_the_full_lock_has_every_pin_but_for_gpus() -> None:
    missing = pinned("constraints.txt").keys() - pinned("requirements-dev.lock").keys()
    assert missing == {"triton"}


def test_the_pinned_triton_is_the_one_that_torch_for_gpus_wants() -> None:
    wanted = [Requirement(line) for line in importlib.metadata.requires("torch") or ()]
    asked = [requirement.specifier for requirement in wanted if requirement.name == "triton"]
    if not asked:
        pytest.skip("this torch is built without Triton")
    assert all(specifier.contains(pinned("constraints.txt")["triton"]) for specifier in asked)


def test_the_image_runs_as_a_user_of_its_own_and_looks_after_its_health() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    last = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert any(re.match(r"USER [1-9]\d*$", line) for line in last)
    assert any(line.startswith("HEALTHCHECK ") for line in last)
    assert not any("TOKEN" in line for line in last if line.startswith(("ENV ", "ARG ")))


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_a_workflow_names_tests_that_are_there(path: Path) -> None:
    named = re.findall(r"\btests/[\w/.]*\w", path.read_text("utf-8"))
    assert not [name for name in named if not (ROOT / name).exists()]


def test_compose_mounts_a_run_and_wants_a_token() -> None:
    text = (ROOT / "compose.yaml").read_text("utf-8")
    assert "${TRANSHER_TOKEN:?" in text
    assert ":/runs/my_run" in text
    assert "TRANSHER_RUNS=/runs/my_run" in (ROOT / "Dockerfile").read_text("utf-8")
