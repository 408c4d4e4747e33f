from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.runs.conftest import QUICK

import transher
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.training.history import read_history


def test_embeddings_are_indexed_by_identifier(run: transher.Run) -> None:
    frame = run.embeddings()
    assert frame.index.tolist() == run.graph.entities.identifiers.to_pylist()
    assert frame.index.name == "entity"
    assert frame.columns.equals(pd.RangeIndex(16))
    assert np.array_equal(frame.to_numpy(), run.trained("a test")[0].entity_weights.numpy())
    assert run.relation_embeddings().to_numpy()[1].tolist() == run.trained("a test")[0].relation_weights[1].tolist()


def test_writing_into_embeddings_leaves_the_model_as_it_is(run: transher.Run) -> None:
    before = run.trained("a test")[0].entity_weights.clone()
    frame = run.embeddings()
    frame.iloc[:, :] = 0.0
    assert run.trained("a test")[0].entity_weights.equal(before)


def test_reciprocal_relations_follow_the_others(ring: Graph) -> None:
    run = transher.train(ring, recipe=QUICK, settings={"model.reciprocal": True, "training.steps": 4})
    assert run.relation_embeddings().index.tolist() == ["r0", "r1", "r2", "r0⁻¹", "r1⁻¹", "r2⁻¹"]


def test_the_history_has_a_row_per_line(run: transher.Run) -> None:
    frame, lines = run.history(), read_history(run.folder)
    assert len(frame) == len(lines)
    validations = frame[frame["kind"] == "validation"]
    assert validations["mrr"].tolist() == [line["mrr"] for line in lines if line["kind"] == "validation"]
    assert validations["loss"].isna().all()


def test_a_run_without_history_has_no_rows(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    (copy / "history.jsonl").unlink()
    assert transher.load(copy).history().columns.tolist() == ["kind", "step"]


def test_metrics_are_those_of_the_evaluation(run: transher.Run) -> None:
    evaluation = run.evaluate()
    overall = run.metrics().loc["all"]
    assert overall["mrr"] == evaluation.overall.mrr
    assert overall["hits@10"] == evaluation.overall.hits_at_10
    assert (overall["mrr_low"], overall["mrr_high"]) == evaluation.overall.intervals["mrr"]
    by_side = run.metrics("side")
    assert by_side["mrr"].to_dict() == {side: part.mrr for side, part in evaluation.by_side.items()}
    by_type = run.metrics(by="type")
    assert by_type.index.names == ["side", "type"]
    for side, row in evaluation.by_type.items():
        assert by_type.loc[side]["count"].to_dict() == {kind: part.count for kind, part in row.items()}
    by_relation = run.metrics("relation")
    assert by_relation["mr"].to_dict() == {f"r{id}": part.mr for id, part in evaluation.by_relation.items()}


def test_kept_ranks_are_not_made_again(run: transher.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transher.runs.run.evaluate", lambda *_, **__: pytest.fail("ranked again"))
    assert run.metrics("relation")["count"].sum() == 2 * len(run.graph.test)


def test_another_split_is_ranked(run: transher.Run) -> None:
    assert run.metrics(split="valid").loc["all", "mrr"] == run.evaluate("valid").overall.mrr


def test_another_breakdown_is_refused(run: transher.Run) -> None:
    with pytest.raises(UsageError, match="'side', 'type' or 'relation'"):
        run.metrics("entity")  # type: ignore[arg-type]
