from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import transher
from transher.cli.main import main
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.models import MODELS
from transher.models.embeddings import Embeddings
from transher.models.initialisation import initial_tables
from transher.runs.joining import join, joined_recipe, joined_tables
from transher.runs.update import update
from transher.training.recipe import Recipe

QUICK = Recipe().with_settings(
    [
        "model.k=8",
        "training.steps=60",
        "training.batch=32",
        "training.negatives=8",
        "training.lr=1e-2",
        "validation.every=30",
        "validation.sample=0",
    ]
)


@pytest.fixture(scope="module")
def runs(ring: Graph, tmp_path_factory: pytest.TempPathFactory) -> list[transher.Run]:
    folder = tmp_path_factory.mktemp("members")
    changes = [["training.seed=1"], ["training.seed=2", "model.k=12", "model.gamma=8.0"]]
    return [
        transher.train(ring, folder / str(number), recipe=QUICK.with_settings(change))
        for number, change in enumerate(changes)
    ]


@settings(max_examples=25)
@given(
    st.sampled_from([name for name in MODELS if MODELS[name].can_join()]),
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.booleans(),
    st.integers(0, 99),
)
def test_the_joined_score_is_the_mean_of_the_members(name: str, widths: list[int], reciprocal: bool, seed: int) -> None:
    entities, relations = 7, 3
    members = []
    for number, k in enumerate(widths):
        model = MODELS[name](k, 3.0 + number)
        rows = relations * (2 if reciprocal else 1)
        tables = initial_tables(model, entities, rows, "N_N_N", "code", seed=seed + number)
        members.append(Embeddings(model, *tables, reciprocal))
    gamma = float(np.mean([member.model.gamma for member in members]))
    model = MODELS[name](sum(widths), gamma)
    joined = Embeddings(model, *joined_tables(model, members), reciprocal)
    triples = torch.cartesian_prod(torch.arange(entities), torch.arange(relations), torch.arange(entities))
    mean = torch.stack([member.score_triples(triples) for member in members]).mean(0)
    torch.testing.assert_close(joined.score_triples(triples), mean, rtol=1e-4, atol=1e-5)


def test_a_joined_run_is_a_run(runs: list[transher.Run], tmp_path: Path) -> None:
    joined = join(runs, tmp_path / "joined")
    assert joined.trained("a test")[1].model.k == 20
    assert joined.trained("a test")[1].model.gamma == 7.0
    assert joined.manifest is not None
    costs = [run.manifest["cost"] for run in runs]  # type: ignore[index]
    assert joined.manifest["cost"]["seconds"] == pytest.approx(sum(cost["seconds"] for cost in costs))
    assert joined.manifest["cost"]["steps"] == 120
    assert [member["recipe"]["training"]["seed"] for member in joined.manifest["members"]] == [1, 2]
    again = transher.load(tmp_path / "joined")
    assert again.kept_evaluation().overall == joined.evaluate().overall  # type: ignore[union-attr]
    triple = [("e010", "r0", "e011")]
    mean = np.mean([run.score(triple)["score"].item() for run in runs])
    assert again.score(triple)["score"].item() == pytest.approx(mean, abs=1e-4)
    assert 0 <= again.probabilities(triple).item() <= 1


def test_what_cannot_be_joined_is_refused(
    runs: list[transher.Run], ring: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="two runs or more"):
        join(runs[:1], tmp_path / "out")
    with pytest.raises(UsageError, match="named twice"):
        join([runs[0], runs[0]], tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with monkeypatch.context() as here:
        here.chdir(tmp_path / "empty")
        with pytest.raises(UsageError, match="that you are in"):
            join(runs, ".")
    pairre = transher.train(ring, tmp_path / "pairre", recipe=QUICK.with_settings(["model.name=pairre"]))
    with pytest.raises(UsageError, match="another model"):
        join([runs[0], pairre], tmp_path / "out")
    seek = transher.train(ring, tmp_path / "seek", recipe=QUICK.with_settings(["model.name=seek"]))
    with pytest.raises(UsageError, match="seek cannot be joined"):
        join([seek, replace(seek, folder=tmp_path / "copy")], tmp_path / "out")
    other = transher.train(transher.load_graph("world"), tmp_path / "world", recipe=QUICK)
    with pytest.raises(UsageError, match="another graph"):
        join([runs[0], other], tmp_path / "out")
    (tmp_path / "world" / "manifest.json").unlink()
    with pytest.raises(UsageError, match="not finished"):
        join([runs[0], transher.load(tmp_path / "world")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_splits_are_another_graph(runs: list[transher.Run], ring: Graph, tmp_path: Path) -> None:
    whole = replace(ring, train=np.concatenate([ring.train, ring.valid[:1]]), valid=ring.valid[1:])
    other = transher.train(whole, tmp_path / "other", recipe=QUICK)
    with pytest.raises(UsageError, match="another graph"):
        join([runs[0], other], tmp_path / "out")


def test_a_join_that_fails_leaves_nothing(
    runs: list[transher.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("transher.runs.joining.save_model", full)
        with pytest.raises(OSError, match="No space left"):
            join(runs, tmp_path / "joined")
    assert list(tmp_path.iterdir()) == []
    assert join(runs, tmp_path / "joined").manifest is not None


def test_a_joined_run_is_not_trained_further(runs: list[transher.Run], tmp_path: Path) -> None:
    joined = join(runs, tmp_path / "joined")
    added = pa.table({"head": ["e010"], "relation": ["r0"], "tail": ["somebody new"]})
    with pytest.raises(UsageError, match="update each of these"):
        update(joined, added, tmp_path / "updated")
    with pytest.raises(UsageError, match="is finished"):
        transher.resume(joined.folder)


def test_from_the_terminal(runs: list[transher.Run], tmp_path: Path) -> None:
    folders = [str(run.folder) for run in runs]
    result = CliRunner().invoke(main, ["join", *folders, "--out", str(tmp_path / "joined"), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["manifest"]["cost"]["steps"] == 120
    again = CliRunner().invoke(main, ["join", *folders, "--out", str(tmp_path / "joined")])
    assert again.exit_code == 2
    assert "already there" in again.output


def test_the_recipe_is_the_firsts_with_the_k_of_all() -> None:
    recipe = joined_recipe([QUICK, QUICK.with_settings(["training.lr=1"])])
    assert recipe == QUICK.with_settings(["model.k=16"])
