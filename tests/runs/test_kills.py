"""A real process that is really killed or stopped, at a given file: what is on disk stays whole, and the training is
resumed to the same end. `test_faults` has every operation, within one process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import transher
from transher.training.checkpoints import MODEL_FILE, STATE_FILE, load_state, read_tensors

SETTINGS = (
    "model.k=32",
    "training.steps=12",
    "training.batch=64",
    "training.negatives=8",
    "validation.every=3",
    "validation.sample=20",
    "validation.checkpoint_minutes=0.00001",
)

# The command line in a process that sends itself a signal just before a file takes its place for the n-th time.
COMMAND = """
import os, sys
from transher.cli.main import main

name, count, number, *arguments = sys.argv[1:]
replace, left = os.replace, int(count)

def signalling(source, target):
    global left
    left -= str(target).endswith(name)
    if left == 0:
        left = -1
        os.kill(os.getpid(), int(number))
    replace(source, target)

os.replace = signalling
main(arguments)
"""


def transher_train(folder: Path, *more: str, name: str = "nothing", count: int = 1, number: int = 0) -> tuple[int, str]:
    """Exit code and standard error of a training that gets the signal `number` at the `count`-th file `name`."""
    arguments = ["train", *more, "--out", str(folder), "--threads", "1"]
    command = [sys.executable, "-c", COMMAND, name, str(count), str(number), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


BEGIN = ("world", *(part for setting in SETTINGS for part in ("--set", setting)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    code, errors = transher_train(folder, *BEGIN)
    assert code == 0, errors
    return folder


def assert_same_end(folder: Path, whole: Path) -> None:
    for name in (MODEL_FILE, STATE_FILE):
        mine, theirs = read_tensors(folder / name)[0], read_tensors(whole / name)[0]
        assert set(mine) == set(theirs)
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert transher.load(folder).kept_metrics()["overall"] == transher.load(whole).kept_metrics()["overall"]  # type: ignore[index]


def test_sigkill_leaves_a_checkpoint_that_is_resumed_to_the_same_weights(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    kills = [(STATE_FILE, 3), (MODEL_FILE, 2), (STATE_FILE, 1), ("evaluation.json", 1), ("manifest.json", 1)]
    more = BEGIN
    for name, count in kills:
        code, errors = transher_train(folder, *more, name=name, count=count, number=signal.SIGKILL)
        assert code == -signal.SIGKILL, errors
        load_state(folder)  # raises if the kill broke it
        read_tensors(folder / MODEL_FILE)
        assert transher.load(folder).manifest is None
        assert list(folder.glob(".*.part"))
        more = ("--resume",)
    code, errors = transher_train(folder, "--resume")
    assert code == 0, errors
    assert not list(folder.glob(".*.part"))
    assert_same_end(folder, whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_says_so_and_can_be_resumed(whole: Path, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "stopped"
    code, errors = transher_train(folder, *BEGIN, name=STATE_FILE, count=2, number=number)
    assert code == 130
    assert "everything is saved" in errors
    assert "Traceback" not in errors
    code, errors = transher_train(folder, "--resume")
    assert code == 0, errors
    assert_same_end(folder, whole)
