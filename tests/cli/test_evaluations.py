from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import QUICK, call


def test_evaluation_by_side_type_and_relation(runs: tuple[Path, Path]) -> None:
    assert "both sides" in call("evaluate", runs[0]).stdout
    assert "tail" in call("evaluate", runs[0], "--by", "side").stdout
    assert "N-to-1" in call("evaluate", runs[0], "--by", "type").stdout
    assert "borders" in call("evaluate", runs[0], "--by", "relation", "--split", "valid").stdout
    evaluation = json.loads(call("evaluate", runs[0], "--json").stdout)
    assert 0 < evaluation["overall"]["mrr"] <= 1
    assert len(evaluation["overall"]["intervals"]["mrr"]) == 2


def test_probabilities_are_judged(runs: tuple[Path, Path]) -> None:
    shown = call("evaluate", runs[0], "--calibration")
    assert shown.exit_code == 0, shown.output
    assert "calibration error" in shown.stdout
    assert "Reliability" in shown.stdout
    report = json.loads(call("evaluate", runs[0], "--calibration", "--json").stdout)
    assert 0 <= report["after"]["calibration_error"] < 0.1
    assert report["after"]["brier"] <= report["before"]["brier"]
    assert report["negatives_per_side"] == 10


def test_two_runs_are_compared(runs: tuple[Path, Path]) -> None:
    assert "Wilcoxon" in call("compare", *runs).stdout
    result = json.loads(call("compare", runs[0], runs[0], "--json").stdout)
    assert result["difference"] == 0
    assert result["wilcoxon_p"] == 1


def test_runs_of_different_graphs_are_not_compared(runs: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.tsv"
    other.write_text("".join(f"a{i}\tr\ta{i + 1}\n" for i in range(60)))
    assert call("train", other, "--out", tmp_path / "run", *QUICK).exit_code == 0
    refused = call("compare", runs[0], tmp_path / "run")
    assert refused.exit_code == 2
    assert "another graph" in refused.stderr
