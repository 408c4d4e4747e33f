from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from tests.cli.conftest import QUICK, call

import transher
from transher.cli.main import main
from transher.errors import Interrupted
from transher.files import writing
from transher.runs.export import FORMATS
from transher.runs.folder import read_recipe
from transher.training.recipe import Recipe
from transher.training.trainer import Trainer


def test_training_shows_the_settings_that_it_chose_and_the_metrics(tmp_path: Path) -> None:
    result = call("train", "world", "--out", tmp_path / "run", *QUICK)
    assert result.exit_code == 0
    assert "chosen from its size" in result.stderr
    assert "validation MRR" in result.stderr
    assert "H@10" in result.stdout


def test_training_in_json(tmp_path: Path) -> None:
    result = call("train", "world", "--out", tmp_path / "run", "--json", "--seed", 3, *QUICK)
    assert json.loads(result.stdout)["manifest"]["seed"] == 3


@pytest.mark.parametrize("settings", [(), ("--model", "rotate")])
def test_several_workers_train_one_model_in_as_many_parts(
    settings: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    monkeypatch.setattr("transher.cli.launching.resume_with", lambda *given: begun.append(given))
    assert call("train", "world", "--out", tmp_path / "run", "--workers", 3, "--json", *settings).exit_code == 0
    recipe = read_recipe(tmp_path / "run")
    assert isinstance(recipe, Recipe)
    assert (recipe.model.name, recipe.training.parts) == (settings[1] if settings else "transher", 3)
    assert begun == [(3, tmp_path / "run", None, True)]


def test_a_training_in_parts_on_a_gpu_that_is_not_there_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    chosen = "--set", "training.parts=2", "--set", "training.device=cuda"
    refused = call("train", "world", "--out", tmp_path / "run", *chosen)
    assert refused.exit_code == 2
    assert "there is no device 'cuda' here" in refused.stderr
    assert not (tmp_path / "run").exists()


def test_what_is_resumed_keeps_its_graph(runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other.tsv").write_text("a\tr\tb\n")
    refused = call("train", tmp_path / "other.tsv", "--out", runs[0], "--resume")
    assert refused.exit_code == 2
    assert "is not the graph" in refused.stderr
    assert "is finished" in call("train", "world", "--out", runs[0], "--resume").stderr


@pytest.mark.parametrize("command", ["train", "join", "update", "export"])
def test_two_commands_do_not_make_one_folder(command: str, runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text("France\tborders\tAtlantis\n")
    copy = transher.load(runs[0]).save(tmp_path / "copy").folder
    arguments = {
        "train": ("world", *QUICK),
        "join": (runs[0], copy),
        "update": (runs[0], tmp_path / "new.tsv"),
        "export": (runs[0], "--to", "numpy"),
    }[command]
    with writing(tmp_path / "out"):
        refused = call(command, *arguments, "--out", tmp_path / "out")
    assert refused.exit_code == 2
    assert "another process is at" in refused.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"new.tsv", "copy"}


def test_an_update_that_was_stopped_is_resumed_and_tells_what_moved(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.tsv").write_text("France\tborders\tAtlantis\n")

    def stop(*_: object) -> None:
        raise Interrupted("stopped")

    with monkeypatch.context() as early:
        early.setattr(Trainer, "run", stop)
        stopped = call("update", runs[0], tmp_path / "new.tsv", "--out", tmp_path / "out")
    assert stopped.exit_code == 130
    resumed = call("train", "--out", tmp_path / "out", "--resume", "--json")
    assert resumed.exit_code == 0, resumed.output
    assert json.loads(resumed.stdout)["update"] == json.loads((tmp_path / "out" / "update.json").read_text())
    assert json.loads(resumed.stdout)["update"]["new_entities"] == 1


def test_every_format_can_be_chosen() -> None:
    (choice,) = [option.type for option in main.commands["export"].params if option.name == "to"]
    assert isinstance(choice, click.Choice)
    assert tuple(choice.choices) == FORMATS
