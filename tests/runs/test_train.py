from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from tests.runs.conftest import QUICK

import transher
from transher.errors import UsageError
from transher.files import alone, writing
from transher.graph.graph import Graph
from transher.training.recipe import Recipe


def test_training_never_writes_over_what_is_there(ring: Graph, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UsageError, match="already there and not empty"):
        transher.train(ring, tmp_path, recipe=QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


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
