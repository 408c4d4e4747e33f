"""What is done to a disk that fails, and what must be there afterwards. Another work is one more line of `WORKS`."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import optuna
import torch
from optuna.storages._rdb.storage import _VersionManager
from optuna.trial import TrialState
from tests.faults.disk import Fault, Killed, disk, operations
from tests.runs.test_update import NEW, towns

import transher
from transher.answering import completion
from transher.answering.missing import wanted_facts
from transher.blending import fitting
from transher.errors import TransherError
from transher.runs import judging
from transher.runs import update as updating
from transher.runs.search import BEST_FILE, DATABASE, outcome
from transher.training.checkpoints import MODEL_FILE, STATE_FILE, read_tensors
from transher.training.recipe import Recipe
from transher.training.shard_files import MODEL_POINTER, STATE_POINTER, mapped_parts

SETTINGS = ["model.k=4", "training.steps=4", "training.batch=16", "training.negatives=4", "validation.every=2"]
TINY = Recipe().with_settings([*SETTINGS, "validation.sample=0"])
PARTS = TINY.with_settings(["training.parts=2"])
SEARCHED = TINY.with_settings(["training.steps=2"])

# What a fault left: nothing; something that the same command, or --resume, brings to its end; the whole.
Left = Literal["absent", "resumable", "finished"]


class Given:
    """Two finished runs of one graph, made once for all works."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def run(self) -> transher.Run:
        return transher.train(towns(), self.folder / "run", recipe=TINY)

    @cached_property
    def other(self) -> transher.Run:
        return transher.train(towns(), self.folder / "other", recipe=TINY.with_settings(["training.seed=1"]))


def same_run(found: Path, whole: Path) -> None:
    """Bit-identical weights and optimiser state, and the same report of an update."""
    for name in (MODEL_FILE, STATE_FILE):
        mine, theirs = read_tensors(found / name)[0], read_tensors(whole / name)[0]
        assert set(mine) == set(theirs)
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert transher.load(found).manifest is not None
    if (whole / "update.json").is_file():
        assert json.loads((found / "update.json").read_text()) == json.loads((whole / "update.json").read_text())
        assert not (found / "before_update.safetensors").exists()


def same_files(found: Path, whole: Path) -> None:
    """Files of the same names and sizes; some tell the seconds that the work took."""
    ours, theirs = (
        {path.relative_to(top): path for path in top.rglob("*") if path.is_file()} for top in (found, whole)
    )
    assert set(ours) == set(theirs)
    for name, path in ours.items():
        if path.suffix not in (".json", ".jsonl") and path.name != "rules.parquet":
            assert path.stat().st_size == theirs[name].stat().st_size, name


def same_bytes(found: Path, whole: Path) -> None:
    assert found.read_bytes() == whole.read_bytes()


def same_parts(found: Path, whole: Path) -> None:
    """Bit-identical parts of the weights and of the optimiser state, and no other files."""
    for pointer in (MODEL_POINTER, STATE_POINTER):
        for mine, theirs in zip(mapped_parts(found, pointer), mapped_parts(whole, pointer), strict=True):
            assert set(mine) == set(theirs)
            assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert transher.load(found).manifest is not None
    # The last checkpoint may lie in another folder.
    names = [sorted(path.name for path in top.rglob("*") if path.is_file()) for top in (found, whole)]
    assert names[0] == names[1]


def same_search(found: Path, whole: Path) -> None:
    """Trials with the values that the same settings have elsewhere, none of them still under way; as many as were asked
    for; and the best of them as a recipe."""
    mine = optuna.load_study(study_name=None, storage=f"sqlite:///{found / DATABASE}")
    finished = _values(whole)
    states = [trial.state for trial in mine.trials]
    assert states.count(TrialState.COMPLETE) >= len(finished)
    assert set(states) <= {TrialState.COMPLETE, TrialState.FAIL}
    for trial in mine.get_trials(states=(TrialState.COMPLETE,)):
        assert trial.value == finished[trial.params["training.lr"]]
    assert Recipe.load(found / BEST_FILE) == outcome(mine, SEARCHED).recipe
    assert {path.name for path in found.iterdir()} == {path.name for path in whole.iterdir()}


def same_answers(found: Path, whole: Path) -> None:
    """Probabilities and verdicts; a judge that is not there is fitted when somebody asks."""
    mine, theirs = transher.load(found), transher.load(whole)
    assert mine.predict(head="e001", relation="r0").equals(theirs.predict(head="e001", relation="r0"))
    assert mine.verdicts().equals(theirs.verdicts())


@cache
def _values(whole: Path) -> dict[float, float | None]:
    """What each setting reached in a search that nothing disturbed."""
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{whole / DATABASE}")
    return {trial.params["training.lr"]: trial.value for trial in study.trials}


def calibrate(given: Given, out: Path) -> None:
    """In a copy of a run."""
    given.run.save(out).calibrate()


def mark(given: Given, out: Path) -> None:
    run = transher.load(out) if out.exists() else given.run.save(out)
    for tail in ("e049", "e050"):
        run.mark("e001", "r0", tail, "right")


def complete(given: Given, out: Path) -> None:
    given.run.complete_to_file(out, wanted_facts(given.run.graph, best=20))


@dataclass(frozen=True)
class Work:
    """make: does it, to a place that is not there yet. same: whether two places hold the same."""

    make: Callable[[Given, Path], object]
    same: Callable[[Path, Path], None]
    out: str = "out"
    again: bool = False  # whether the same command goes on with what it left


WORKS: dict[str, Work] = {
    "train": Work(lambda given, out: transher.train(towns(), out, recipe=TINY), same_run),
    "update": Work(lambda given, out: transher.update(given.run, NEW, out), same_run),
    "join": Work(lambda given, out: transher.join([given.run, given.other], out), same_files),
    "blend": Work(lambda given, out: transher.blend([given.run, given.other], out), same_files),
    "export": Work(lambda given, out: transher.export(given.run, "parquet", out), same_files),
    "save": Work(lambda given, out: given.run.save(out), same_files),
    "calibrate": Work(calibrate, same_answers),
    "mark": Work(mark, same_answers, again=True),
    "complete": Work(complete, same_bytes, out="facts.tsv", again=True),
    "parts": Work(lambda given, out: transher.train(towns(), out, recipe=PARTS), same_run),
    "sharded": Work(lambda given, out: transher.train(towns(), out, recipe=PARTS, sharded=True), same_parts),
    "search": Work(
        lambda given, out: transher.search(towns(), out, recipe=SEARCHED, space=["training.lr=0.01,0.1"], trials=2),
        same_search,
        again=True,
    ),
}


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is computed the same each time is computed once: it is written each time."""
    found: dict[str, Any] = {}

    def once(*arguments: Any, **named: Any) -> Any:
        if "it" not in found:
            found["it"] = function(*arguments, **named)
        return found["it"]

    return once


@contextmanager
def quickly() -> Iterator[None]:
    """For one work at a time. There is no power cut here: an order to flush counts, and is not waited for. TensorBoard,
    which writes from a thread of its own, is left out. A completion saves its state after every step. Which version of
    its tables Optuna has is asked once, and the collection after a kill looks at nothing that was there before."""
    with ExitStack() as changes:
        gc.freeze()
        changes.callback(gc.unfreeze)
        versions = _VersionManager, "get_head_version"
        changes.enter_context(patch.object(*versions, remembered(getattr(*versions))))
        for place, name in ((judging, "fit_judge"), (fitting, "fit_weights"), (updating, "place")):
            changes.enter_context(patch.object(place, name, remembered(getattr(place, name))))
        changes.enter_context(patch.object(os, "fsync", lambda _: None))
        changes.enter_context(patch("transher.training.history.find_spec", lambda _: None))
        changes.enter_context(patch.object(completion, "_SAVE_EVERY", -1.0))
        yield


def count_operations(work: Work, given: Given, folder: Path) -> int:
    """How many operations a work takes; what it makes lies in `folder`/whole."""
    whole = folder / "whole" / work.out
    return operations(folder, lambda: work.make(given, whole))


def try_fault(work: Work, given: Given, folder: Path, fault: Fault, number: int) -> Left:
    """Do a work with a fault at an operation, then what a person does: the same again, or --resume. It must end as a
    work without a fault; an AssertionError says where it does not, and any other exception that it is stuck."""
    out = folder / f"{fault}-{number}" / work.out
    survived = False
    with suppress(Killed, OSError, TransherError), disk(folder, fault, number) as shown:
        work.make(given, out)
        survived = True
    if shown.commits:
        gc.collect()  # the connection of a killed process, which would keep its lock
    left = _left(out, work, survived)
    if left == "absent" or (left == "resumable" and work.again):
        work.make(given, out)
    elif left == "resumable":
        transher.resume(out)
    work.same(out, folder / "whole" / work.out)
    # An empty file; and what a completion that was killed at its very end could be resumed from.
    harmless = {f".{out.name}.lock", f".{out.name}.state"}
    beside = {path.name for path in out.parent.iterdir()} - {out.name, *harmless}
    assert not beside, beside
    return left


def _left(out: Path, work: Work, survived: bool) -> Left:
    if survived:
        return "finished"
    if not out.exists():
        return "resumable" if list(out.parent.glob(f".{out.name}.state")) else "absent"
    if work.again:
        return "finished" if out.is_file() else "resumable"
    if (out / "recipe.toml").is_file() and not (out / "manifest.json").is_file():
        return "resumable"
    return "finished"
