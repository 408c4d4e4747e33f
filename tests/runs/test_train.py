from __future__ import annotations

import shutil
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs.conftest import QUICK

import transher
from transher.errors import UsageError
from transher.files import alone, writing
from transher.graph.graph import Graph
from transher.runs import train as train_module
from transher.training.recipe import Recipe
from transher.training.trainer import Trainer


def test_training_never_writes_over_what_is_there(ring: Graph, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UsageError, match="already there and not empty"):
        transher.train(ring, tmp_path, recipe=QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_trainings_tables_are_gone_before_its_best_weights_come(
    ring: Graph, resumed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[weakref.ref[Any]] = []
    run, conclude = Trainer.run, train_module.conclude

    def noted(self: Trainer, *arguments: Any) -> None:
        tables.append(weakref.ref(self.entities))
        run(self, *arguments)

    def alone(*arguments: Any, **more: Any) -> None:
        assert [table() for table in tables] == [None]
        conclude(*arguments, **more)

    monkeypatch.setattr(Trainer, "run", noted)
    monkeypatch.setattr(train_module, "conclude", alone)
    settings = {"training.steps": 2, "model.k": 4}
    if resumed:
        train_module.begin(tmp_path / "run", ring, Recipe().with_settings(settings))
        transher.resume(tmp_path / "run")
    else:
        transher.train(ring, tmp_path / "run", recipe=Recipe().with_settings(settings))
    assert tables


def test_a_finished_run_is_not_resumed(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="finished"):
        transher.resume(run.folder)


def test_a_training_that_came_to_no_checkpoint_begins_again(copy: Path, run: transher.Run) -> None:
    for path in copy.iterdir():
        if path.name not in ("recipe.toml", "graph", "history.jsonl"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert torch.equal(
        transher.resume(copy).trained("a test")[0].entity_weights, run.trained("a test")[0].entity_weights
    )


def test_a_training_is_resumed_by_one_process_at_a_time(ring: Graph, tmp_path: Path) -> None:
    run = transher.train(ring, tmp_path / "run", recipe=Recipe().with_settings(["training.steps=2", "model.k=4"]))
    (run.folder / "manifest.json").unlink()
    writing = run.folder / ".model.safetensors.part"
    writing.touch()
    with alone(run.folder / ".lock", "run"), pytest.raises(UsageError, match="another process is at"):
        transher.resume(run.folder)
    assert writing.exists()
    assert transher.resume(run.folder).manifest is not None


def test_a_training_is_begun_by_one_process_at_a_time(ring: Graph, tmp_path: Path) -> None:
    with writing(tmp_path / "run"), pytest.raises(UsageError, match="another process is at"):
        transher.train(ring, tmp_path / "run", recipe=QUICK)
    assert not (tmp_path / "run").exists()


def test_a_recipe_that_does_not_fit_the_graph_leaves_no_folder(ring: Graph, tmp_path: Path) -> None:
    with pytest.raises(transher.TransherError, match="types"):
        transher.train(ring, tmp_path / "run", recipe=QUICK.with_settings(["training.typed=true"]))
    assert not list(tmp_path.iterdir())


def test_the_folder_that_one_is_in_is_not_replaced(
    ring: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="that you are in"):
        transher.train(ring, ".", recipe=QUICK)
    assert not list(tmp_path.iterdir())
