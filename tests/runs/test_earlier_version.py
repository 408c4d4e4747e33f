"""Runs that version 0.1.0 made: one finished, and one that was stopped after half of its 600 steps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import torch

import transher

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def finished(tmp_path: Path) -> transher.Run:
    return transher.load(shutil.copytree(DATA / "run-0.1.0", tmp_path / "finished"))


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    return shutil.copytree(DATA / "run-0.1.0-stopped", tmp_path / "stopped")


def test_it_answers_with_the_ranks_that_it_kept(finished: transher.Run) -> None:
    kept, anew = finished.kept_evaluation(), finished.evaluate()
    assert kept is not None
    assert finished.manifest is not None
    assert finished.manifest["versions"]["transher"] == "0.1.0"
    assert (kept.ranks.realistic == anew.ranks.realistic).all()
    head, relation, tail = (
        words.identifiers[id].as_py()
        for words, id in zip(
            (finished.graph.entities, finished.graph.relations, finished.graph.entities),
            finished.graph.train[0].tolist(),
            strict=True,
        )
    )
    assert finished.predict(head=head, relation=relation, top=1000)["tail"].tolist().count(tail) <= 1
    assert 0 <= finished.probabilities([(head, relation, tail)]).item() <= 1


def test_it_is_resumed_to_the_same_weights(finished: transher.Run, stopped: Path) -> None:
    assert transher.load(stopped).manifest is None
    resumed = transher.resume(stopped)
    assert resumed.manifest is not None
    assert resumed.manifest["cost"]["steps"] == 600
    assert torch.equal(resumed.trained("a test")[0].entity_weights, finished.trained("a test")[0].entity_weights)
    assert torch.equal(resumed.trained("a test")[0].relation_weights, finished.trained("a test")[0].relation_weights)


def test_it_is_joined_updated_exported_and_compared(finished: transher.Run, stopped: Path, tmp_path: Path) -> None:
    resumed = transher.resume(stopped)
    joined = transher.join([finished, resumed], tmp_path / "joined")
    assert joined.trained("a test")[1].model.k == 2 * finished.trained("a test")[1].model.k
    assert transher.compare(finished, resumed).difference == 0
    old = finished.graph.entities.identifiers[0].as_py()
    relation = finished.graph.relations.identifiers[0].as_py()
    added = pa.table({"head": ["somewhere new"], "relation": [relation], "tail": [old]})
    updated, report = transher.update(finished, added, tmp_path / "updated", steps=5)
    assert (report.added, report.new_entities) == (1, 1)
    assert updated.graph.entities.identifiers[-1].as_py() == "somewhere new"
    assert transher.export(finished, "numpy", tmp_path / "exported")
