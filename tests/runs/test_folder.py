from __future__ import annotations

from pathlib import Path

import pytest

import transher
from transher.errors import UsageError
from transher.files import writing
from transher.runs.folder import new_folder, refuse_to_overwrite


def test_the_folder_is_what_the_design_says(run: transher.Run) -> None:
    names = {path.name for path in run.folder.iterdir()} - {"tensorboard"}
    assert names == {
        "recipe.toml",
        "graph",
        "model.safetensors",
        "optimizer.safetensors",
        "history.jsonl",
        "evaluation.json",
        "ranks.parquet",
        "judge.json",
        "judge.safetensors",
        "rules.parquet",
        "manifest.json",
    }


def test_nothing_in_the_folder_is_a_pickle(run: transher.Run) -> None:
    for path in run.folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes()[:2] not in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK")


def test_a_new_folder_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UsageError, match="already there and not empty"), new_folder(tmp_path):
        pytest.fail("it was begun")
    with pytest.raises(UsageError, match="is a file"):
        refuse_to_overwrite(tmp_path / "precious.txt")
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_an_unfinished_run_is_told_how_to_be_resumed(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    with pytest.raises(UsageError, match=f"transher train --out {copy} --resume"):
        refuse_to_overwrite(copy)


def test_one_process_at_a_time_makes_a_folder(tmp_path: Path) -> None:
    with writing(tmp_path / "new"), pytest.raises(UsageError, match="another process"), new_folder(tmp_path / "new"):
        pytest.fail("it was begun")


@pytest.mark.parametrize("folder", ["absent", "."])
def test_what_is_no_run_is_said_to_be_none(tmp_path: Path, folder: str) -> None:
    with pytest.raises(transher.TransherError, match="not a run"):
        transher.load(tmp_path / folder)
    with pytest.raises(transher.TransherError, match="transher train GRAPH --out"):
        transher.resume(tmp_path / folder)
