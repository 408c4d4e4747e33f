"""A process that is killed, or has no space left, at every operation on the disk: what it was making is absent,
resumable to identical bits, or finished."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.disk import Killed, disk, operations
from tests.runs.test_update import NEW, towns

import transher
from transher.answering.fitting import fit_judge
from transher.answering.judge import Judge
from transher.blending import Weights, fitting
from transher.blending.fitting import fit_weights
from transher.models.embeddings import Embeddings
from transher.runs import judging
from transher.runs import update as updating
from transher.training.checkpoints import MODEL_FILE, STATE_FILE, read_tensors
from transher.training.placement import place
from transher.training.recipe import Recipe

SETTINGS = ["model.k=4", "training.steps=4", "training.batch=16", "training.negatives=4", "validation.every=2"]
TINY = Recipe().with_settings([*SETTINGS, "validation.sample=0"])


@pytest.fixture(autouse=True)
def a_quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no power cut here: an order to flush counts as an operation, and is not waited for. TensorBoard, which
    writes from a thread of its own, is left out."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr("transher.training.history.find_spec", lambda _: None)


@pytest.fixture
def judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same weights have the same judge: it is written each time, and fitted once."""
    found: list[Judge | None] = []

    def remembered(*arguments: Any, **options: Any) -> Judge | None:
        if not found:
            found.append(fit_judge(*arguments, **options))
        return found[0]

    monkeypatch.setattr(judging, "fit_judge", remembered)


@pytest.fixture
def weighed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the same members have the same weights."""
    found: list[Weights] = []

    def remembered(*arguments: Any) -> Weights:
        if not found:
            found.append(fit_weights(*arguments))
        return found[0]

    monkeypatch.setattr(fitting, "fit_weights", remembered)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> transher.Run:
    return transher.train(towns(), tmp_path_factory.mktemp("runs") / "towns", recipe=TINY)


@pytest.fixture
def placed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """New rows are placed by a short training, the same each time."""
    found: list[Embeddings] = []

    def remembered(*arguments: object) -> Embeddings:
        if not found:
            found.append(place(*arguments))  # type: ignore[arg-type]
        return found[0]

    monkeypatch.setattr(updating, "place", remembered)


def ended(folder: Path, make: Callable[[Path], object]) -> transher.Run:
    """What somebody does after a kill: make it again if it is not there, resume it if it is unfinished."""
    if not folder.exists():
        make(folder)
    elif not (folder / "manifest.json").exists():
        transher.resume(folder)
    return transher.load(folder)


def assert_same_weights(folder: Path, whole: Path) -> None:
    for name in (MODEL_FILE, STATE_FILE):
        mine, theirs = read_tensors(folder / name)[0], read_tensors(whole / name)[0]
        assert set(mine) == set(theirs)
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)


def assert_survives_every_kill(make: Callable[[Path], object], tmp_path: Path) -> list[Path]:
    """Killed at every operation and then ended, a training has the weights of one that was not; gives the folders."""
    whole = tmp_path / "whole" / "run"
    count = operations(tmp_path, lambda: make(whole))
    assert count > 30
    folders = []
    for number in range(count):
        folder = tmp_path / str(number) / "run"
        with disk(tmp_path, kill_at=number), pytest.raises(Killed):
            make(folder)
        finished = ended(folder, make)
        assert finished.manifest is not None
        assert_same_weights(folder, whole)
        left = {path.name for path in folder.parent.iterdir()}
        assert left <= {"run", ".run.lock"}, number  # the lock is the system's: the empty file holds nothing
        folders.append(folder)
    return folders


@pytest.mark.usefixtures("judged_once")
def test_a_training_killed_anywhere_ends_with_the_same_weights(tmp_path: Path) -> None:
    assert_survives_every_kill(lambda folder: transher.train(towns(), folder, recipe=TINY), tmp_path)


@pytest.mark.usefixtures("judged_once", "placed_once")
def test_an_update_killed_anywhere_ends_as_one_that_was_not(run: transher.Run, tmp_path: Path) -> None:
    folders = assert_survives_every_kill(lambda folder: transher.update(run, NEW, folder), tmp_path)
    report = (tmp_path / "whole" / "run" / "update.json").read_text()
    for folder in folders:
        assert (folder / "update.json").read_text() == report
        assert not (folder / "before_update.safetensors").exists()


@pytest.mark.usefixtures("judged_once")
def test_a_folder_without_space_is_no_folder_or_can_be_resumed(tmp_path: Path) -> None:
    whole = tmp_path / "whole" / "run"
    count = operations(tmp_path, lambda: transher.train(towns(), whole, recipe=TINY))
    for number in range(count):
        folder = tmp_path / str(number) / "run"
        try:
            with disk(tmp_path, full_at=number):
                transher.train(towns(), folder, recipe=TINY)
        except OSError:
            assert not folder.exists() or (folder / "recipe.toml").is_file()
            assert not list(tmp_path.glob(f"{number}/.run*.part"))
        ended(folder, lambda folder: transher.train(towns(), folder, recipe=TINY))
        assert_same_weights(folder, whole)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> transher.Run:
    recipe = TINY.with_settings(["training.seed=1"])
    return transher.train(towns(), tmp_path_factory.mktemp("runs") / "other", recipe=recipe)


@pytest.mark.usefixtures("judged_once", "weighed_once")
@pytest.mark.parametrize("how", ["kill_at", "full_at"])
@pytest.mark.parametrize("what", ["join", "blend", "export", "save"])
def test_what_is_made_at_once_is_absent_or_whole(
    what: str, how: str, run: transher.Run, other: transher.Run, tmp_path: Path
) -> None:
    works: dict[str, Callable[[Path], object]] = {
        "join": lambda out: transher.join([run, other], out),
        "blend": lambda out: transher.blend([run, other], out),
        "export": lambda out: transher.export(run, "parquet", out),
        "save": run.save,
    }
    make = works[what]
    whole = tmp_path / "whole" / "out"
    count = operations(tmp_path, lambda: make(whole))
    expected = {path.relative_to(whole) for path in whole.rglob("*")}
    for number in range(count):
        out = tmp_path / str(number) / "out"
        try:
            with disk(tmp_path, **{how: number}):
                make(out)
        except (Killed, OSError) as failure:
            if isinstance(failure, OSError) and not out.exists() and out.parent.exists():
                assert not list(out.parent.glob("*.part"))  # a failure cleans up
        if not out.exists():
            make(out)
        found = {path.relative_to(out) for path in out.rglob("*")}
        assert found == expected, number
        assert not list(out.parent.glob(".*.part"))
