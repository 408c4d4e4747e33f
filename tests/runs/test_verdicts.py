from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import transher
from transher.cli.main import main
from transher.errors import InputError, UsageError
from transher.graph.growing import without
from transher.runs.verdicts import VERDICTS_FILE, Said, mark, marked, read_verdicts

FACT = ("e000", "r0", "e030")


def test_the_last_word_about_a_fact_counts(tmp_path: Path) -> None:
    mark(tmp_path, {FACT: "right", ("a\tb", "r", "c\n"): "wrong"})
    mark(tmp_path, {FACT: "wrong"})
    said = read_verdicts(tmp_path)
    assert {triple: one.verdict for triple, one in said.items()} == {FACT: "wrong", ("a\tb", "r", "c\n"): "wrong"}
    mark(tmp_path, {FACT: None})
    assert list(read_verdicts(tmp_path)) == [("a\tb", "r", "c\n")]


def test_a_write_that_was_cut_off_costs_only_itself(tmp_path: Path) -> None:
    mark(tmp_path, {FACT: "right"})
    with (tmp_path / VERDICTS_FILE).open("a", encoding="utf-8") as file:
        file.write('{"head": "e0')
    assert list(read_verdicts(tmp_path)) == [FACT]
    mark(tmp_path, {("e001", "r0", "e002"): "wrong"})
    assert list(read_verdicts(tmp_path)) == [FACT, ("e001", "r0", "e002")]


def test_what_ends_a_line_of_text_may_be_in_a_name(tmp_path: Path) -> None:
    mark(tmp_path, {("a\u2028b", "r\x85", "c\rd"): "right"})
    assert list(read_verdicts(tmp_path)) == [("a\u2028b", "r\x85", "c\rd")]


@pytest.mark.parametrize(
    "changed",
    [{"verdict": "maybe"}, {"head": 1.5}, {"tail": None}, {"date": []}, {"relation": "\x8e"}],
    ids=["another verdict", "a number", "nothing", "a list", "not UTF-8"],
)
def test_a_line_that_is_no_verdict_is_named(tmp_path: Path, changed: dict[str, object]) -> None:
    line = {"head": "a", "relation": "r", "tail": "b", "verdict": "right", "date": ""} | changed
    (tmp_path / VERDICTS_FILE).write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="latin-1")
    with pytest.raises(InputError, match="line 1"):
        read_verdicts(tmp_path)


def test_names_that_a_graph_does_not_have_are_left_out(run: transher.Run) -> None:
    said = {
        FACT: Said("wrong", ""),
        ("nobody", "r0", "e001"): Said("wrong", ""),
        ("e003", "r0", "e004"): Said("right", ""),
    }
    assert marked(run.graph, said, "wrong").tolist() == [[0, 0, 30]]


def test_a_graph_without_some_triples_keeps_its_names_and_its_weights(run: transher.Run) -> None:
    gone = np.concatenate([run.graph.train[:2], run.graph.valid[:1], run.graph.test[:1]])
    left = without(run.graph, gone)
    assert (len(left.train), len(left.valid), len(left.test)) == (
        len(run.graph.train) - 2,
        len(run.graph.valid) - 1,
        len(run.graph.test) - 1,
    )
    assert len(left.entities) == len(run.graph.entities)
    assert not left.known.has(gone).any()


def test_what_is_wrong_is_left_out_of_a_completion(copy: Path) -> None:
    run = transher.load(copy)
    best = run.complete(best=3, any_entity=True)
    first = best.iloc[0]
    run.mark(first["head"], first["relation"], first["tail"], "wrong")
    again = run.complete(best=3, any_entity=True)
    columns = ["head_id", "relation_id", "tail_id"]
    assert again[columns].values.tolist()[:2] == best[columns].values.tolist()[1:]


def test_an_update_adds_what_is_right_and_takes_out_what_is_wrong(copy: Path, tmp_path: Path) -> None:
    run = transher.load(copy)
    with pytest.raises(UsageError, match="nothing to update with"):
        run.update(None, tmp_path / "none")
    wrong = run.graph.train[0]
    run.mark(*FACT, "right")
    run.mark(f"e{wrong[0]:03}", f"r{wrong[1]}", f"e{wrong[2]:03}", "wrong")
    newer = run.update(None, tmp_path / "newer", steps=5)
    assert newer.graph.known.has(np.array([[0, 0, 30], wrong])).tolist() == [True, False]
    assert len(newer.verdicts()) == 2  # the new run knows what was said


def test_an_update_that_verdicts_change_nothing_for_says_so(copy: Path, tmp_path: Path) -> None:
    run = transher.load(copy)
    head, relation, tail = run.graph.train[0]
    run.mark(f"e{head:03}", f"r{relation}", f"e{tail:03}", "right")
    run.mark(*FACT, "wrong")
    with pytest.raises(UsageError, match="all of these triples already, and none that were called wrong"):
        run.update(None, tmp_path / "newer")


def test_the_command_marks_shows_and_exports(copy: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["verdicts", str(copy), *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    fact = ("--head", "e000", "--relation", "r0", "--tail", "e030")
    assert json.loads(call(*fact, "--mark", "right", "--json"))[0]["verdict"] == "right"
    assert "e030" in call()
    assert "1 fact marked" in call()
    call("--out", str(tmp_path / "said.tsv"))
    lines = (tmp_path / "said.tsv").read_text("utf-8").splitlines()
    assert lines[0].split("\t")[:3] == ["head", "relation", "tail"]
    assert len(lines) == 2
    call(*fact, "--mark", "nothing")
    assert json.loads(call("--json")) == []


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    shutil.rmtree(folder)
    with pytest.raises(UsageError, match="cannot be written"):
        mark(folder, {FACT: "right"})
