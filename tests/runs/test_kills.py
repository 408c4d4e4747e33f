"""A real process, really killed: what is on disk stays whole, and the training goes on to the same end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import transher
from transher.training.checkpoints import MODEL_FILE, STATE_FILE, load_state, read_tensors

# A table of some megabytes and a checkpoint a step, so that many a kill falls into a write.
SETTINGS = [
    "--set", "model.k=800", "--set", "training.steps=60", "--set", "training.batch=64", "--set", "training.negatives=8",
    "--set", "validation.every=3", "--set", "validation.sample=20", "--set", "validation.checkpoint_minutes=0.00001",
]  # fmt: skip


def start(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "transher", "train", "world", "--out", str(folder), "--threads", "1", *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ)


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while not path.exists() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    process = start(folder, *SETTINGS)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()
    return folder


def assert_same_end(folder: Path, whole: Path) -> None:
    for name in (MODEL_FILE, STATE_FILE):
        mine, theirs = read_tensors(folder / name)[0], read_tensors(whole / name)[0]
        assert set(mine) == set(theirs)
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert transher.load(folder).kept_metrics()["overall"] == transher.load(whole).kept_metrics()["overall"]  # type: ignore[index]


def test_sigkill_at_any_time_leaves_a_checkpoint_that_goes_on_to_the_same_weights(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    chance = random.Random(0)
    process = start(folder, *SETTINGS)
    kills = 0
    for _ in range(6):
        wait_for(folder / STATE_FILE, process)
        time.sleep(chance.uniform(0, 0.6) if kills == 0 else chance.uniform(2.5, 3.5))
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        kills += 1
        load_state(folder)  # raises if the kill broke it
        read_tensors(folder / MODEL_FILE)
        assert not (folder / "manifest.json").exists()
        assert transher.load(folder).manifest is None
        process = start(folder, "--resume")
    _, errors = process.communicate(timeout=300)
    assert kills > 0
    assert process.returncode == 0, errors.decode()
    assert not list(folder.glob(".*.part"))
    assert_same_end(folder, whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_says_so_and_goes_on(whole: Path, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "stopped"
    process = start(folder, *SETTINGS)
    wait_for(folder / STATE_FILE, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "everything is saved" in errors.decode()
    assert "Traceback" not in errors.decode()
    process = start(folder, "--resume")
    process.communicate(timeout=300)
    assert process.returncode == 0
    assert_same_end(folder, whole)
