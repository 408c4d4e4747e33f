from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from transher.cli.main import main

QUICK = [
    "--set",
    "model.k=16",
    "--set",
    "training.steps=40",
    "--set",
    "training.batch=64",
    "--set",
    "training.negatives=16",
    "--set",
    "validation.every=20",
    "--set",
    "validation.sample=50",
]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name, model in (("a", "transher"), ("b", "pairre")):
        result = call("train", "world", "--out", folder / name, "--model", model, *QUICK)
        assert result.exit_code == 0, result.output
    return folder / "a", folder / "b"


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_answers_at_once_and_without_torch() -> None:
    best = 10.0
    for _ in range(3):
        began = processor_seconds()  # and not the clock's: other tests run beside this one
        subprocess.run([sys.executable, "-m", "transher", "--help"], check=True, capture_output=True)
        best = min(best, processor_seconds() - began)
    assert best < 0.3
    code = "import sys; from transher.cli.main import main; sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_command_has_help() -> None:
    for name in main.commands:
        result = call(name, "--help")
        assert result.exit_code == 0
        assert "Usage" in result.output


def test_training_shows_the_settings_that_it_chose_and_the_metrics(tmp_path: Path) -> None:
    result = call("train", "world", "--out", tmp_path / "run", *QUICK)
    assert result.exit_code == 0
    assert "chosen from its size" in result.stderr
    assert "validation MRR" in result.stderr
    assert "H@10" in result.stdout


def test_training_in_json(tmp_path: Path) -> None:
    result = call("train", "world", "--out", tmp_path / "run", "--json", "--seed", 3, *QUICK)
    assert json.loads(result.stdout)["manifest"]["seed"] == 3


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


def test_the_base_rate_moves_probabilities_and_not_the_order(runs: tuple[Path, Path]) -> None:
    asked = ("predict", runs[0], "--head", "France", "--relation", "borders", "--json")
    plain, rare = json.loads(call(*asked).stdout), json.loads(call(*asked, "--base-rate", 0.001).stdout)
    assert [answer["tail"] for answer in plain] == [answer["tail"] for answer in rare]
    assert all(0 < few["probability"] < many["probability"] < 1 for few, many in zip(rare, plain, strict=True))
    assert call(*asked, "--base-rate", 1.5).exit_code == 2


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


def test_what_goes_on_keeps_its_graph(runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "other.tsv").write_text("a\tr\tb\n")
    refused = call("train", tmp_path / "other.tsv", "--out", runs[0], "--resume")
    assert refused.exit_code == 2
    assert "is not the graph" in refused.stderr
    assert "is finished" in call("train", "world", "--out", runs[0], "--resume").stderr


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


def test_triples_from_a_file_are_scored(runs: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "asked.tsv"
    file.write_text("France\tborders\tBelgium\nFrance\tborders\tJapan\n")
    result = call("score", runs[0], file)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "head\trelation\ttail\tscore\tprobability"
    assert len(result.stdout.splitlines()) == 3
    assert [row["tail"] for row in json.loads(call("score", runs[0], file, "--json").stdout)] == ["Belgium", "Japan"]


def test_benchmarks_are_listed() -> None:
    assert "world" in call("datasets").stdout
    names = {row["name"] for row in json.loads(call("datasets", "--json").stdout)}
    assert names == {"world", "fb15k-237", "db100k", "yago37", "wn18rr", "ogbl-wikikg2", "ogbl-biokg"}


def test_statistics_are_shown() -> None:
    assert "borders" in call("stats", "world").stdout
    assert json.loads(call("stats", "world", "--json").stdout)["entities"] > 100


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["predict", "{run}", "--head", "France"], 2, "two of --head"),
        (["predict", "{run}", "--head", "Frence", "--relation", "borders"], 2, "France"),
        (["predict", "{run}", "--head", "France", "--relation", "border"], 2, "borders"),
        (["predict", "nowhere", "--head", "a", "--relation", "b"], 2, "not a run"),
        (["train", "wrld", "--out", "x"], 2, "world"),
        (["train", "world", "--out", "{run}"], 2, "already there"),
        (["train", "world", "--out", "x", "--set", "training.stps=3"], 2, "training.steps"),
        (["train", "world", "--out", "x", "--recipe", "nonsense"], 2, "no recipe"),
        (["train", "world", "--out", "x", "--model", "transr2"], 2, "transr"),
        (["train", "--out", "nowhere", "--resume"], 1, "not a run"),
        (["train", "--out", "nowhere"], 2, "name a graph"),
        (["train", "world", "--out", "{run}", "--resume", "--seed", "1"], 2, "keeps its recipe"),
        (["score", "{run}", "absent.tsv"], 1, "absent.tsv"),
        (["evaluate", "{run}", "--split", "tset"], 2, "tset"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_mistakes_are_told_with_the_right_exit_code(
    runs: tuple[Path, Path], arguments: list[str], code: int, message: str
) -> None:
    result = call(*(argument.format(run=runs[0]) for argument in arguments))
    assert result.exit_code == code, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output
