from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import call

from transher.files import writing


def test_answers_in_names(runs: tuple[Path, Path]) -> None:
    shown = call("predict", runs[0], "--head", "France", "--relation", "borders", "--top", 300)
    assert shown.exit_code == 0, shown.output
    assert "country/" in shown.stdout
    assert "known" in shown.stdout
    hidden = json.loads(
        call("predict", runs[0], "--head", "France", "--relation", "borders", "--known", "hide", "--json").stdout
    )
    assert len(hidden) == 10
    assert not any(answer["known"] for answer in hidden)
    relations = json.loads(call("predict", runs[0], "--head", "France", "--tail", "Europe", "--json").stdout)
    assert {"relation", "score", "rank"} <= set(relations[0])


def test_the_base_rate_moves_probabilities_and_not_the_order(runs: tuple[Path, Path]) -> None:
    asked = ("predict", runs[0], "--head", "France", "--relation", "borders", "--json")
    plain, rare = json.loads(call(*asked).stdout), json.loads(call(*asked, "--base-rate", 0.001).stdout)
    assert [answer["tail"] for answer in plain] == [answer["tail"] for answer in rare]
    assert all(0 < few["probability"] < many["probability"] < 1 for few, many in zip(rare, plain, strict=True))
    assert call(*asked, "--base-rate", 1.5).exit_code == 2


def test_triples_from_a_file_are_scored(runs: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "asked.tsv"
    file.write_text("France\tborders\tBelgium\nFrance\tborders\tJapan\n")
    result = call("score", runs[0], file)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "head\trelation\ttail\tscore\tprobability"
    assert len(result.stdout.splitlines()) == 3
    assert [row["tail"] for row in json.loads(call("score", runs[0], file, "--json").stdout)] == ["Belgium", "Japan"]


def test_two_completions_do_not_write_one_file(runs: tuple[Path, Path], tmp_path: Path) -> None:
    asked = ("complete", runs[0], "--relation", "borders", "--best", 5, "--out", tmp_path / "facts.tsv")
    with writing(tmp_path / "facts.tsv"):
        refused = call(*asked)
    assert refused.exit_code == 2
    assert "another process is at" in refused.stderr
    assert not (tmp_path / "facts.tsv").exists()
    assert call(*asked).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["facts.tsv"]
