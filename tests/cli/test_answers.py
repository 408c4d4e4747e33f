from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import QUICK, call

from transher.files import writing
from transher.graph import rows


def test_answers_in_names(runs: tuple[Path, Path]) -> None:
    shown = call("predict", runs[0], "--head", "France", "--relation", "borders", "--top", 300)
    assert shown.exit_code == 0, shown.output
    assert "identifier" in shown.stdout
    assert "country/" in shown.stdout
    assert "known" in shown.stdout
    hidden = json.loads(
        call("predict", runs[0], "--head", "France", "--relation", "borders", "--known", "hide", "--json").stdout
    )
    assert len(hidden) == 10
    assert not any(answer["known"] for answer in hidden)
    relations = json.loads(call("predict", runs[0], "--head", "France", "--tail", "Europe", "--json").stdout)
    assert {"relation", "score", "rank"} <= set(relations[0])


def test_identifiers_that_are_the_names_are_not_shown_twice(tmp_path: Path) -> None:
    (tmp_path / "packages.tsv").write_text("\n".join(f"package{i}\tneeds\tpackage{i % 5}" for i in range(40)), "utf-8")
    call("train", tmp_path / "packages.tsv", "--out", tmp_path / "run", *QUICK)
    shown = call("predict", tmp_path / "run", "--head", "package7", "--relation", "needs")
    assert "package2" in shown.stdout
    assert "identifier" not in shown.stdout
    assert shown.stdout.count("package2 ") == 1


def test_the_missing_share_moves_probabilities_and_not_the_order(runs: tuple[Path, Path]) -> None:
    asked = ("predict", runs[0], "--head", "France", "--relation", "borders", "--json")
    plain, rare = json.loads(call(*asked).stdout), json.loads(call(*asked, "--missing-share", 1e-9).stdout)
    assert [answer["tail"] for answer in plain] == [answer["tail"] for answer in rare]
    assert all(0 < few["probability"] < many["probability"] < 1 for few, many in zip(rare, plain, strict=True))
    assert call(*asked, "--missing-share", 1.5).exit_code == 2


def test_triples_from_a_file_are_scored(runs: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "asked.tsv"
    file.write_text("France\tborders\tBelgium\nFrance\tborders\tJapan\n")
    result = call("score", runs[0], file)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "head\trelation\ttail\tscore\tprobability"
    assert len(result.stdout.splitlines()) == 3
    assert [row["tail"] for row in json.loads(call("score", runs[0], file, "--json").stdout)] == ["Belgium", "Japan"]


def test_scores_keep_the_other_columns_of_the_file(runs: tuple[Path, Path], tmp_path: Path) -> None:
    asked = tmp_path / "asked.csv"
    asked.write_text("id,target,relation,score,source\n007,Belgium,borders,old,France\n,Japan,borders,,France\n")
    for ending, read in (("tsv", lambda path: pd.read_csv(path, sep="\t", dtype=str)), ("parquet", pd.read_parquet)):
        out = tmp_path / f"scored.{ending}"
        result = call("score", runs[0], asked, "--out", out)
        assert result.exit_code == 0, result.output
        assert f"2 triples are in {out}" in result.stderr
        table = read(out)
        assert list(table) == ["head", "relation", "tail", "id", "score_2", "score", "probability"]
        assert table["tail"].tolist() == ["Belgium", "Japan"]
        assert table["id"][0] == "007"
        assert table["score_2"][0] == "old"


def test_numbers_stay_numbers_from_parquet_to_parquet(runs: tuple[Path, Path], tmp_path: Path) -> None:
    asked = pd.DataFrame({"year": [1830, 1999], "head": "France", "relation": "borders", "tail": ["Belgium", "Japan"]})
    asked.to_parquet(tmp_path / "asked.parquet")
    assert call("score", runs[0], tmp_path / "asked.parquet", "--out", tmp_path / "out.parquet").exit_code == 0
    assert pd.read_parquet(tmp_path / "out.parquet")["year"].tolist() == [1830, 1999]


def test_objects_of_json_lines_need_not_have_the_same_keys(runs: tuple[Path, Path], tmp_path: Path) -> None:
    lines = [
        {"head": "France", "relation": "borders", "tail": "Belgium"},
        {"head": "France", "relation": "borders", "tail": "Japan", "note": [1, "x"], "weight": 2},
    ]
    (tmp_path / "asked.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    rows = json.loads(call("score", runs[0], tmp_path / "asked.jsonl", "--json").stdout)
    assert [(row["note"], row["weight"]) for row in rows] == [(None, None), ('[1, "x"]', "2")]


def test_a_name_that_the_graph_lacks_is_told_with_its_line_left_out_or_left_empty(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    asked = tmp_path / "asked.tsv"
    asked.write_text("France\tborders\tBelgium\n\nFrance\tborders\tAtlantis\nFrance\tborders\tSpain\n")
    refused = call("score", runs[0], asked, "--out", tmp_path / "out.tsv")
    assert refused.exit_code == 1
    assert f"{asked}, line 3: The graph has no entity called 'Atlantis'" in refused.stderr
    assert "--unknown skip" in refused.stderr
    assert not (tmp_path / "out.tsv").exists()
    skipped = call("score", runs[0], asked, "--unknown", "skip", "--json")
    assert [row["tail"] for row in json.loads(skipped.stdout)] == ["Belgium", "Spain"]
    assert "1 of 3 rows were left out" in skipped.stderr
    empty = json.loads(call("score", runs[0], asked, "--unknown", "null", "--json").stdout)
    assert [row["score"] is None for row in empty] == [False, True, False]
    assert [row["probability"] for row in empty[::2]] == [row["probability"] for row in json.loads(skipped.stdout)]


def test_scores_do_not_depend_on_the_blocks_that_a_file_is_read_in(
    runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked.tsv"
    tails = ("Belgium", "Japan", "Spain", "Atlantis", "Italy")
    asked.write_text("".join(f"France\tborders\t{tail}\n" for tail in tails))
    whole = call("score", runs[0], asked, "--unknown", "null").stdout
    monkeypatch.setattr(rows, "_BLOCK_ROWS", 2)
    assert call("score", runs[0], asked, "--unknown", "null").stdout == whole
    assert len(whole.splitlines()) == 6


def test_columns_delimiter_and_header_are_told_as_for_training(runs: tuple[Path, Path], tmp_path: Path) -> None:
    asked = tmp_path / "asked.txt"
    asked.write_text("a;b;c;d\nx;Belgium;borders;France\n")
    told = call("score", runs[0], asked, "--delimiter", ";", "--columns", "3,2,1", "--header", "yes", "--json")
    assert told.exit_code == 0, told.output
    (row,) = json.loads(told.stdout)
    assert (row["head"], row["relation"], row["tail"], row["a"]) == ("France", "borders", "Belgium", "x")
    refused = call("score", runs[0], asked, "--delimiter", ";", "--columns", "3,2,1")
    assert refused.exit_code == 1
    assert "--header yes" in refused.stderr


def test_bad_rows_are_told_with_their_place_or_counted(runs: tuple[Path, Path], tmp_path: Path) -> None:
    rows = [("France", "borders", "Belgium"), ("France", None, "Spain"), ("France", "borders", "Italy")]
    frame = pd.DataFrame(rows, columns=["head", "relation", "tail"])
    frame.to_parquet(tmp_path / "asked.parquet")
    (tmp_path / "asked.tsv").write_text("France\tborders\tBelgium\nFrance\tSpain\nFrance\tborders\tItaly\n")
    frame.to_json(tmp_path / "asked.jsonl", orient="records", lines=True)
    for name, where in (("asked.parquet", "row 2"), ("asked.tsv", "line 2"), ("asked.jsonl", "line 2")):
        refused = call("score", runs[0], tmp_path / name)
        assert refused.exit_code == 1
        assert f"{tmp_path / name}, {where}" in refused.stderr
        told = call("score", runs[0], tmp_path / name, "--skip-bad-rows", "--json")
        assert [row["tail"] for row in json.loads(told.stdout)] == ["Belgium", "Italy"]
        assert f"1 bad rows were left out: {name}, {where}" in told.stderr


def test_statements_of_rdf_are_scored(runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "asked.nt").write_text("<http://a/x> <http://a/r> <http://a/y> .\n")
    refused = call("score", runs[0], tmp_path / "asked.nt")
    assert refused.exit_code == 1
    assert "asked.nt, statement 1: The graph has no entity called" in refused.stderr
    empty = json.loads(call("score", runs[0], tmp_path / "asked.nt", "--unknown", "null", "--json").stdout)
    assert [row["score"] for row in empty] == [None]


def test_a_file_that_is_there_is_not_replaced_unasked(runs: tuple[Path, Path], tmp_path: Path) -> None:
    asked, out = tmp_path / "asked.tsv", tmp_path / "out.tsv"
    asked.write_text("France\tborders\tBelgium\n")
    for command in (("score", runs[0], asked), ("complete", runs[0], "--relation", "borders", "--best", 3)):
        out.write_text("precious")
        refused = call(*command, "--out", out)
        assert refused.exit_code == 2
        assert "is there already" in refused.stderr
        assert out.read_text() == "precious"
        assert call(*command, "--out", out, "--overwrite").exit_code == 0
        assert out.read_text() != "precious"


def test_what_moved_a_score_is_explained_in_words(runs: tuple[Path, Path]) -> None:
    told = call("explain", runs[0], "--head", "France", "--relation", "borders", "--tail", "Belgium").stdout
    assert "share of all effects" in told
    assert "per unit of learning rate" in told


def test_two_completions_do_not_write_one_file(runs: tuple[Path, Path], tmp_path: Path) -> None:
    asked = ("complete", runs[0], "--relation", "borders", "--best", 5, "--out", tmp_path / "facts.tsv")
    with writing(tmp_path / "facts.tsv"):
        refused = call(*asked)
    assert refused.exit_code == 2
    assert "another process is at" in refused.stderr
    assert not (tmp_path / "facts.tsv").exists()
    assert call(*asked).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["facts.tsv"]
