from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import transher
from transher.errors import InputError, UsageError
from transher.files import alone
from transher.graph.graph import Graph
from transher.training.recipe import Recipe

QUICK = Recipe().with_settings(
    ["model.k=16", "training.steps=200", "training.batch=32", "training.negatives=16", "training.lr=0.02",
     "validation.every=50"]
)  # fmt: skip


@pytest.fixture(scope="module")
def run(ring: Graph, tmp_path_factory: pytest.TempPathFactory) -> transher.Run:
    return transher.train(ring, tmp_path_factory.mktemp("runs") / "ring", recipe=QUICK)


@pytest.fixture
def copy(run: transher.Run, tmp_path: Path) -> Path:
    return run.save(tmp_path / "copy").folder


def test_the_folder_is_what_the_design_says(run: transher.Run) -> None:
    names = {path.name for path in run.folder.iterdir()} - {"tensorboard"}
    assert names == {
        "recipe.toml", "graph", "model.safetensors", "optimizer.safetensors", "history.jsonl", "evaluation.json",
        "ranks.parquet", "calibration.json", "manifest.json",
    }  # fmt: skip
    assert run.manifest is not None
    assert run.manifest["seed"] == 0
    assert run.manifest["cost"]["steps"] == 200
    assert run.manifest["versions"]["torch"].startswith("2.")


def test_nothing_in_the_folder_is_a_pickle(run: transher.Run) -> None:
    for path in run.folder.rglob("*"):
        if path.is_file():
            assert path.read_bytes()[:2] not in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK")


def test_a_loaded_run_answers_as_the_trained_one(run: transher.Run) -> None:
    again = transher.load(run.folder)
    assert torch.equal(again.scorer.entity_weights, run.scorer.entity_weights)
    pd.testing.assert_frame_equal(again.predict(head="e010", relation="r0"), run.predict(head="e010", relation="r0"))
    assert again.recipe == QUICK
    assert again.evaluate().overall.mrr == run.evaluate().overall.mrr == run.kept_metrics()["overall"]["mrr"]  # type: ignore[index]


def test_test_ranks_are_kept(run: transher.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    anew = run.evaluate()
    monkeypatch.setattr("transher.runs.run.evaluate", lambda *_, **__: pytest.fail("ranked again"))
    kept = run.kept_evaluation()
    assert kept is not None
    assert np.array_equal(kept.ranks.realistic, anew.ranks.realistic)
    assert np.array_equal(kept.ranks.triples, anew.ranks.triples)
    assert kept.overall == anew.overall
    assert kept.to_dict() == run.kept_metrics()


def test_a_run_that_kept_no_ranks_says_so(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    (copy / "ranks.parquet").unlink()
    assert transher.load(copy).kept_evaluation() is None
    assert transher.load(copy).evaluate("valid").split == "valid"


def test_a_run_without_a_place_can_be_saved(ring: Graph, tmp_path: Path) -> None:
    run = transher.train(ring, recipe=QUICK.with_settings(["training.steps=20"]))
    saved = run.save(tmp_path / "kept")
    assert torch.equal(transher.load(tmp_path / "kept").scorer.entity_weights, run.scorer.entity_weights)
    assert saved.folder == tmp_path / "kept"
    with pytest.raises(UsageError, match="already there"):
        run.save(tmp_path / "kept")


def test_training_never_writes_over_what_is_there(ring: Graph, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UsageError, match="already there and not empty"):
        transher.train(ring, tmp_path, recipe=QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize(
    "name", ["model.safetensors", "recipe.toml", "ranks.parquet", "graph/train.parquet", "graph/entities.parquet"]
)
def test_a_changed_file_is_noticed(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(InputError, match="hash"):
        transher.load(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors.*missing"):
        transher.load(copy)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}'])
def test_a_broken_manifest_is_an_error(copy: Path, content: str) -> None:
    (copy / "manifest.json").write_text(content)
    with pytest.raises(InputError, match="not a manifest"):
        transher.load(copy)


def test_a_manifest_of_a_later_format_is_refused(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(InputError, match="format 99"):
        transher.load(copy)


def test_an_unfinished_run_answers_from_its_best_weights(copy: Path, run: transher.Run) -> None:
    (copy / "manifest.json").unlink()
    unfinished = transher.load(copy)
    assert unfinished.manifest is None
    assert torch.equal(unfinished.scorer.entity_weights, run.scorer.entity_weights)


@pytest.fixture
def of_an_earlier_version(copy: Path) -> Path:
    """A finished run from before calibrations were stored."""
    manifest = json.loads((copy / "manifest.json").read_text())
    del manifest["files"]["calibration.json"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    (copy / "calibration.json").unlink()
    return copy


def test_a_run_of_an_earlier_version_is_calibrated_once(
    of_an_earlier_version: Path, run: transher.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = transher.load(of_an_earlier_version).predict(head="e010", relation="r0")
    assert (of_an_earlier_version / "calibration.json").read_bytes() == (run.folder / "calibration.json").read_bytes()
    monkeypatch.delattr("transher.runs.run.calibrate")
    pd.testing.assert_frame_equal(transher.load(of_an_earlier_version).predict(head="e010", relation="r0"), first)


def test_a_run_that_cannot_be_written_to_has_probabilities_all_the_same(
    of_an_earlier_version: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("transher.files.os.replace", refuse)
    assert "probability" in transher.load(of_an_earlier_version).predict(head="e010", relation="r0")
    assert not list(of_an_earlier_version.glob("*calibration*"))


def test_the_calibration_of_an_unfinished_run_is_not_kept(of_an_earlier_version: Path) -> None:
    (of_an_earlier_version / "manifest.json").unlink()
    assert transher.load(of_an_earlier_version).calibration is not None
    assert not (of_an_earlier_version / "calibration.json").exists()


def test_a_finished_run_does_not_go_on(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="finished"):
        transher.resume(run.folder)


def test_a_training_that_came_to_no_checkpoint_begins_again(copy: Path, run: transher.Run) -> None:
    for path in copy.iterdir():
        if path.name not in ("recipe.toml", "graph", "history.jsonl"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert torch.equal(transher.resume(copy).scorer.entity_weights, run.scorer.entity_weights)


@pytest.mark.parametrize("folder", ["absent", "."])
def test_what_is_no_run_is_said_to_be_none(tmp_path: Path, folder: str) -> None:
    with pytest.raises(transher.TransherError, match="not a run"):
        transher.load(tmp_path / folder)


def test_answers_are_best_first_and_marked_or_hidden_when_known(run: transher.Run) -> None:
    marked = run.predict(head="e010", relation="r0", top=60)
    assert list(marked["score"]) == sorted(marked["score"], reverse=True)
    assert marked["tail"][marked["known"]].tolist() == ["e011"]
    hidden = run.predict(head="e010", relation="r0", top=60, known="hide")
    assert hidden["tail"].tolist() == [tail for tail in marked["tail"] if tail != "e011"]


def test_heads_and_relations_can_be_asked_for(run: transher.Run) -> None:
    heads = run.predict(relation="r0", tail="e011", top=3)
    assert heads["head"].tolist() == run.predict(relation="r0", tail="e011", top=60)["head"].tolist()[:3]
    assert (heads["tail"] == "e011").all()
    relations = run.predict(head="e010", tail="e011", top=5)
    assert sorted(relations["relation"]) == ["r0", "r1", "r2"]
    assert relations["known"].tolist() == [relation == "r0" for relation in relations["relation"]]
    assert "r0" not in run.predict(head="e010", tail="e011", known="hide")["relation"].tolist()


def test_scores_of_single_triples_are_those_of_the_answers(run: transher.Run) -> None:
    answers = run.predict(head="e010", relation="r0", top=5)
    scores = run.score([("e010", "r0", tail) for tail in answers["tail"]])
    assert scores["score"].tolist() == pytest.approx(answers["score"].tolist(), abs=1e-4)


@pytest.mark.parametrize("given", [{"head": "e001"}, {"head": "e001", "relation": "r0", "tail": "e002"}, {}])
def test_a_question_needs_exactly_two_parts(run: transher.Run, given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="two of head, relation and tail"):
        run.predict(**given)  # type: ignore[arg-type]


def test_an_unknown_name_gets_the_nearest(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="e010"):
        run.predict(head="e010x", relation="r0")


def test_a_training_is_gone_on_with_by_one_process_at_a_time(ring: Graph, tmp_path: Path) -> None:
    run = transher.train(ring, tmp_path / "run", recipe=Recipe().with_settings(["training.steps=2", "model.k=4"]))
    (run.folder / "manifest.json").unlink()
    writing = run.folder / ".model.safetensors.part"
    writing.touch()
    with alone(run.folder / ".lock", "run"), pytest.raises(UsageError, match="another process is at"):
        transher.resume(run.folder)
    assert writing.exists()
    assert transher.resume(run.folder).manifest is not None
