from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from transher.analysis import experiments
from transher.analysis.reproduce import reproduce
from transher.graph.graph import SIDES
from transher.runs.run import load

SAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "make_ogb_sample.py"))


@pytest.mark.parametrize("name", ["ogbl-biokg", "ogbl-wikikg2"])
def test_the_authors_recipe_runs_from_ogbs_files_to_the_figure_of_ogbs_evaluator(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTDATED_IGNORE", "1")
    evaluator = pytest.importorskip("ogb.linkproppred").Evaluator(name=name)
    SAMPLE["WRITERS"][name](tmp_path / "data")
    monkeypatch.setenv("TRANSHER_DATA", str(tmp_path / "data"))

    (experiment,) = experiments.experiments(name, models=["transher"], quick=True)
    (written,) = reproduce([experiment], tmp_path / "runs", tmp_path / "results")
    result = json.loads(written.read_text("utf-8"))
    assert result["protocol"] == "sampled"
    assert result["recipe"]["training"]["typed"] == (name == "ogbl-biokg")
    assert result["recipe"]["training"]["count_offset"] == 4

    run = load(tmp_path / "runs" / experiment.name)
    assert result["validation_mrr"] == pytest.approx(run.evaluate("valid").overall.mrr, rel=1e-5)  # not of a sample
    reciprocal = []
    for side in SIDES:
        candidates = getattr(run.graph.candidates["test"], side)
        triples = np.repeat(run.graph.test, candidates.shape[1], axis=0)
        triples[:, 0 if side == "head" else 2] = candidates.reshape(-1)
        positive = run.scorer.score_triples(torch.from_numpy(run.graph.test), side)
        negative = run.scorer.score_triples(torch.from_numpy(triples), side).view(candidates.shape)
        reciprocal.append(evaluator.eval({"y_pred_pos": positive, "y_pred_neg": negative})["mrr_list"])
    assert result["metrics"]["overall"]["mrr"] == pytest.approx(torch.cat(reciprocal).double().mean().item(), rel=1e-5)
