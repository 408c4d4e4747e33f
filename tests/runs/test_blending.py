"""A blend is a run like any other."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from starlette.testclient import TestClient
from tests.runs.test_update import NEW, table, towns

import transher
from transher.blending import Blend
from transher.blending.storage import BLEND_FILE
from transher.cli.main import main
from transher.errors import InputError, UsageError
from transher.graph.graph import Graph
from transher.runs.blending import blend
from transher.runs.folder import MANIFEST_FILE
from transher.runs.joining import join
from transher.runs.run import Run, load
from transher.runs.update import update, with_facts
from transher.serving.api import create_app
from transher.serving.server import load_explorers
from transher.training.blend_recipe import BlendRecipe
from transher.training.recipe import Recipe

QUICK = Recipe().with_settings(
    ["model.k=16", "training.steps=200", "training.batch=32", "training.negatives=16", "training.lr=0.02",
     "validation.every=100"]
)  # fmt: skip


def trained_members(graph: Graph, folder: Path) -> list[Run]:
    """Vectors, vectors that ask from either side, and rules."""
    from_either_side = QUICK.with_settings(["model.name=complex", "model.reciprocal=true"])
    return [
        transher.train(graph, folder / "transher", recipe=QUICK),
        transher.train(graph, folder / "complex", recipe=from_either_side),
        transher.train(graph, folder / "rules", model="rules", settings={"mining.minutes": 0.02}),
    ]


@pytest.fixture(scope="module")
def members(ring: Graph, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return trained_members(ring, tmp_path_factory.mktemp("members"))


@pytest.fixture(scope="module")
def blended(members: list[Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    return blend(members, tmp_path_factory.mktemp("blends") / "blend")


def test_it_lies_in_one_folder_that_can_be_moved(blended: Run, tmp_path: Path) -> None:
    names = {path.name for path in blended.folder.iterdir()} - {"tensorboard"}
    assert names == {"recipe.toml", "graph", "members", "blend.safetensors", "history.jsonl", "evaluation.json",
                     "ranks.parquet", "judge.json", "judge.safetensors", "manifest.json"}  # fmt: skip
    moved = tmp_path / "elsewhere"
    shutil.copytree(blended.folder, moved)
    again = load(moved)
    assert isinstance(again.recipe, BlendRecipe)
    assert isinstance(again.scorer, Blend)
    triples = torch.from_numpy(again.graph.all_triples).long()
    assert torch.equal(again.scorer.score(triples), blended.scorer.score(triples))
    assert again.kept_evaluation().overall == again.evaluate().overall  # type: ignore[union-attr]
    assert again.manifest is not None
    assert len(again.manifest["members"]) == 3
    assert load(moved / "members" / "2").title == "ComplEx"


def test_it_is_better_than_its_worst_and_as_good_as_its_best(members: list[Run], blended: Run) -> None:
    alone = [member.evaluate("valid").overall.mrr for member in members]
    assert blended.evaluate("valid").overall.mrr >= max(alone) - 0.05


def test_it_answers_as_any_run(blended: Run) -> None:
    assert blended.title == "TranSHER + ComplEx + Rules"
    assert "a blend of" in repr(blended)
    assert "3 runs, blended" in blended._repr_html_()
    answers = blended.predict(head="e005", relation="r0", top=3)
    assert answers.iloc[0]["tail"] == "e006"
    assert len(blended.complete(best=5)) <= 5
    evidence = blended.explain("e005", "r0", "e006")
    assert evidence.rules
    assert list(blended.history()["kind"].unique()) == ["validation"]
    assert blended.compare(load(blended.folder)).difference == 0
    client = TestClient(create_app(load_explorers([blended.folder])), base_url="http://localhost")
    query = {"head": "e005", "relation": "r0"}
    served = client.get(f"/api/runs/{blended.folder.name}/predict", params=query).json()["answers"]
    assert [fact["score"] for fact in served] == blended.predict(**query)["score"].tolist()  # type: ignore[arg-type]
    assert client.get(f"/api/runs/{blended.folder.name}/map").status_code == 200


def test_the_embeddings_are_those_of_the_first_member_that_has_some(
    members: list[Run], blended: Run, tmp_path: Path
) -> None:
    assert blended.embeddings().equals(members[0].embeddings())
    files = blended.export("numpy", tmp_path / "export", answers=2)
    assert {"entities.npy", "answers.parquet"} <= {file.name for file in files}
    rows = np.load(tmp_path / "export" / "entities.npy")
    assert np.array_equal(rows, members[0].embeddings().to_numpy())


def test_what_cannot_be_blended_is_refused(members: list[Run], blended: Run, tmp_path: Path) -> None:
    other = transher.train(towns(), tmp_path / "towns", recipe=QUICK)
    for runs, told in (
        (members[:1], "two runs or more"),
        ([members[0], load(members[0].folder)], "named twice"),
        ([members[0], other], "another graph"),
        ([members[0], replace(members[1], manifest=None)], "not finished"),
    ):
        with pytest.raises(UsageError, match=told) as error:
            blend(runs, tmp_path / "out")
        assert len(str(error.value).splitlines()) == 1
    with pytest.raises(UsageError, match="is a blend"):
        join([blended, members[0]], tmp_path / "out")
    with pytest.raises(UsageError, match="is finished"):
        transher.resume(blended.folder)
    with pytest.raises(UsageError, match="not trained"):
        transher.train(blended.graph, tmp_path / "out", recipe=blended.folder / "recipe.toml")
    assert not (tmp_path / "out").exists()


def test_a_blend_can_be_blended(members: list[Run], blended: Run, tmp_path: Path) -> None:
    inner = blend(members[1:], tmp_path / "inner")
    outer = blend([members[0], inner], tmp_path / "outer")
    assert len(outer.scorer.parts) == 3
    assert outer.vectors("a test")[1].model.name == "transher"
    assert inner.vectors("a test")[1].model.name == "complex"


def test_a_changed_member_is_found(blended: Run, tmp_path: Path) -> None:
    copy = blended.save(tmp_path / "copy").folder
    path = copy / "members" / "1" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00\x01")
    with pytest.raises(InputError, match="hash"):
        load(copy)


def test_a_blend_that_was_not_concluded_is_resumed(blended: Run, tmp_path: Path) -> None:
    copy = blended.save(tmp_path / "copy").folder
    weights = (copy / BLEND_FILE).read_bytes()
    for name in (MANIFEST_FILE, BLEND_FILE):
        (copy / name).unlink()
    resumed = transher.resume(copy).kept_metrics()
    assert (resumed or {})["overall"] == (blended.kept_metrics() or {})["overall"]
    assert (copy / BLEND_FILE).read_bytes() == weights


def test_an_update_reaches_every_member(tmp_path: Path) -> None:
    old = blend(trained_members(towns(), tmp_path), tmp_path / "old")
    updated, report = update(old, NEW, tmp_path / "new", steps=20)
    assert report.new_entities == 2
    assert report.steps == 40
    assert report.mrr_before == pytest.approx(old.evaluate().overall.mrr)
    assert updated.scorer.entity_count == len(old.graph.entities) + 2
    assert len(updated.scorer.parts) == 3
    assert updated.update_report() == report
    with pytest.raises(UsageError, match="nothing to update"):
        update(old, table(("e001", "r0", "e049")), tmp_path / "same")


def test_a_fact_on_the_spot_places_an_entity_in_every_member(tmp_path: Path) -> None:
    old = blend(trained_members(towns(), tmp_path), tmp_path / "old")
    new = with_facts(old, table(("e900", "r0", "e049")))
    answers = new.predict(head="e900", relation="r1", top=3)
    assert "e053" in answers["tail"].tolist()


def test_from_the_terminal(members: list[Run], tmp_path: Path) -> None:
    folders = [str(members[0].folder), str(members[2].folder)]
    out = str(tmp_path / "blend")
    shown = CliRunner().invoke(main, ["blend", *folders, "--out", out])
    assert shown.exit_code == 0, shown.output
    assert "Each run alone" in shown.output
    for command in (["evaluate", out, "--json"], ["rules", out, "--top", "1", "--json"]):
        told = CliRunner().invoke(main, command)
        assert told.exit_code == 0, told.output
        assert json.loads(told.stdout)
    recipe = str(tmp_path / "blend" / "recipe.toml")
    trained = CliRunner().invoke(main, ["train", "world", "--recipe", recipe, "--out", str(tmp_path / "x")])
    assert trained.exit_code == 2
    assert "made of finished runs" in trained.output
    again = CliRunner().invoke(main, ["blend", *folders, "--out", out])
    assert again.exit_code == 2
    assert "already there" in again.output
