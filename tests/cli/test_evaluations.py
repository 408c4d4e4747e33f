from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from tests.cli.conftest import QUICK, call

import transher


def test_evaluation_by_side_type_and_relation(runs: tuple[Path, Path]) -> None:
    assert "both sides" in call("evaluate", runs[0]).stdout
    assert "tail" in call("evaluate", runs[0], "--by", "side").stdout
    assert "N-to-1" in call("evaluate", runs[0], "--by", "type").stdout
    assert "borders" in call("evaluate", runs[0], "--by", "relation", "--split", "valid").stdout
    evaluation = json.loads(call("evaluate", runs[0], "--json").stdout)
    assert 0 < evaluation["overall"]["mrr"] <= 1
    assert len(evaluation["overall"]["intervals"]["mrr"]) == 2


def test_probabilities_are_tried_on_the_test_triples(runs: tuple[Path, Path]) -> None:
    shown = call("evaluate", runs[0], "--calibration")
    assert shown.exit_code == 0, shown.output
    assert "share that holds" in shown.stdout
    assert "calibration error" in shown.stdout
    report = json.loads(call("evaluate", runs[0], "--calibration", "--json").stdout)
    assert [each["facts"] for each in report["best"]] == [100, 1000, 10000]
    assert report["shown"]["brier"] < report["former"]["brier"]
    refused = call("evaluate", runs[0], "--calibration", "--split", "valid")
    assert refused.exit_code == 2
    assert "fitted on valid" in refused.stderr


@pytest.fixture
def later(runs: tuple[Path, Path], tmp_path: Path) -> Path:
    """Facts that the graph lacks: some true in a way, and one about somebody unknown."""
    graph = transher.load(runs[0]).graph
    names = [graph.entities.label(each) for each in graph.test[graph.test[:, 1] == 0, 0][:30].tolist()]
    lines = [f"{name}\tspeaks\tKlingon" for name in names[:1]]
    lines += [f"{one}\tborders\t{other}" for one, other in pairwise(names) if one != other]
    path = tmp_path / "later.tsv"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_later_facts_are_compared_with_what_was_predicted(runs: tuple[Path, Path], later: Path) -> None:
    shown = call("backtest", runs[0], later)
    assert shown.exit_code == 0, shown.output
    assert "by popularity" in shown.stdout
    report = json.loads(call("backtest", runs[0], later, "--json").stdout)
    assert report["later"] > 0
    assert report["left_out"] >= 1  # nobody speaks Klingon


def test_probabilities_are_fitted_on_later_facts(runs: tuple[Path, Path], later: Path, tmp_path: Path) -> None:
    copy = transher.load(runs[0]).save(tmp_path / "copy").folder
    done = call("calibrate", copy, "--later", later, "--json")
    assert done.exit_code == 0, done.output
    fitted = json.loads(done.stdout)
    assert fitted["later"]
    assert json.loads((copy / "judge.json").read_text())["later"]
    again = call("calibrate", copy, "--json")
    assert again.exit_code == 0, again.output
    assert not json.loads(again.stdout)["later"]


def test_a_training_takes_later_facts_and_keeps_them_for_a_resume(later: Path, tmp_path: Path) -> None:
    done = call("train", "world", "--out", tmp_path / "run", "--later", later, *QUICK)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run" / "later.parquet").is_file()
    assert json.loads((tmp_path / "run" / "judge.json").read_text())["later"]


def test_a_list_of_entities_that_cannot_be_read_is_told(runs: tuple[Path, Path], later: Path, tmp_path: Path) -> None:
    refused = call("backtest", runs[0], later, "--about", tmp_path / "nobody.txt")
    assert refused.exit_code != 0
    assert "nobody.txt" in refused.stderr


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
