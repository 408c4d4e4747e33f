"""Names that a terminal, a markup language or a spreadsheet would obey, through every command."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result
from tests.cli.conftest import QUICK, call

from transher.cli.display import wrapped
from transher.cli.main import main
from transher.graph import load_graph
from transher.visible import shown

HOSTILE = (
    "[/bold]x",
    "x[citation]y",
    "[link=https://example.org]here[/link]",
    ":smile:",
    "\x1b[31mred\x1b[0m",
    "\x9b2Jcleared",
    "\x07bell\x08\x08",
    "two\nlines\r",
    "a\ttab",
    "\u202egnp.exe",
    "\u2066isolated",
    "zero\u200bwidth",
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    '"quoted", with a comma',
    "$x_{1}$",
    "<script>alert(1)</script>",
    "日本語 \u200dنام",
)
RELATIONS = ("[/red]/a_long/relation_name/of_a_knowledge_graph", "=HYPERLINK(1)", "\x1b]0;title\x07")
COPIES = 4


def entity(place: int) -> str:
    place %= len(HOSTILE) * COPIES
    return f"{HOSTILE[place % len(HOSTILE)]} {place // len(HOSTILE)}"


def hostile_triples() -> pd.DataFrame:
    count = len(HOSTILE) * COPIES
    triples = [(entity(i), RELATIONS[r], entity(i + r + far)) for i in range(count) for r in range(3) for far in (1, 7)]
    return pd.DataFrame(triples, columns=["head", "relation", "tail"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph in Parquet, which holds any name, and a run on it."""
    folder = tmp_path_factory.mktemp("hostile")
    hostile_triples().to_parquet(folder / "[graph].parquet")
    for name, model in (("run", "transher"), ("other", "pairre")):
        trained = call("train", folder / "[graph].parquet", "--out", folder / name, "--model", model, *QUICK)
        harmless(trained)
    return folder


def harmless(result: Result, between: str = "\n") -> str:
    assert result.exit_code == 0, result.output
    for text in (result.stdout, result.stderr):
        for character in text:
            assert character in between or shown(character) == character, ascii(text)
    return result.stdout


def test_statistics(folder: Path) -> None:
    told = harmless(call("stats", folder / "[graph].parquet"))
    assert told.startswith("[graph]: 80 entities")
    assert "[/red]/" in told


def test_answers(folder: Path) -> None:
    told = harmless(
        call("predict", folder / "run", "--head", entity(1), "--relation", RELATIONS[0], "--top", len(HOSTILE) * COPIES)
    )
    for text in ("[/bold]x", "x[citation]y", ":smile:", r"\x1b[31mred", r"two\nlines\r", r"\u202egnp.exe"):
        assert text in told
    harmless(call("predict", folder / "run", "--head", entity(4), "--tail", entity(5)))


def test_evidence(folder: Path) -> None:
    for place in range(len(HOSTILE)):
        asked = ("--head", entity(place), "--relation", RELATIONS[place % 3], "--tail", entity(place + 2))
        told = harmless(call("explain", folder / "run", *asked))
        assert "effect on the score" in told
    assert json.loads(call("explain", folder / "run", *asked, "--json").stdout)["fact"]["head"] == entity(place)


def test_evaluation_and_comparison(folder: Path) -> None:
    assert "[/red]/" in harmless(call("evaluate", folder / "run", "--by", "relation"))
    harmless(call("evaluate", folder / "run", "--calibration"))
    harmless(call("compare", folder / "run", folder / "other"))


def test_json_holds_the_names_and_nothing_that_a_terminal_obeys(folder: Path) -> None:
    told = harmless(call("predict", folder / "run", "--head", entity(4), "--relation", RELATIONS[2], "--json"))
    assert {row["head"] for row in json.loads(told)} == {entity(4)}


def test_messages(folder: Path) -> None:
    refused = call("predict", folder / "run", "--head", "\x1b[31m no such", "--relation", RELATIONS[0])
    assert refused.exit_code == 2
    assert "\x1b" not in refused.stderr
    refused = call("train", folder / "[absent\x1b].tsv", "--out", folder / "never")
    assert refused.exit_code == 2
    assert "\x1b" not in refused.output


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "nt"])
def test_written_facts_can_be_opened_and_read_again(folder: Path, ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"facts.{ending}"
    harmless(call("complete", folder / "run", "--best", 500, "--evidence", "--out", out))
    names = {entity(place) for place in range(len(HOSTILE) * COPIES)}
    if ending == "parquet":
        table = pd.read_parquet(out)
        assert set(table["head_id"]) | set(table["tail_id"]) <= names
    elif ending == "csv":
        with out.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 500
        for row in rows:
            float(row["score"])
            assert not any(cell[:1] in "=+-@" for column, cell in row.items() if cell and column != "score")
        assert {row["head_id"].removeprefix("'") for row in rows} <= names
    elif ending == "tsv":
        lines = out.read_text("utf-8").splitlines()
        assert len({line.count("\t") for line in lines}) == 1
        again = load_graph(out, columns=["head_id", "relation_id", "tail_id"]).entities.identifiers.to_pylist()
        assert set(again) <= {name.replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t") for name in names}
    else:
        assert len(load_graph(out).all_triples) == 500


def test_scored_triples(folder: Path, tmp_path: Path) -> None:
    asked = pd.DataFrame({"head": [entity(0), entity(12)], "relation": RELATIONS[1], "tail": [entity(7), entity(14)]})
    asked["=note"] = ["@x", "-1.5"]
    asked.to_parquet(tmp_path / "asked.parquet")
    harmless(call("score", folder / "run", tmp_path / "asked.parquet"), between="\n\t")
    harmless(call("score", folder / "run", tmp_path / "asked.parquet", "--json"))
    call("score", folder / "run", tmp_path / "asked.parquet", "--out", tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet")[list(asked)], asked)
    call("score", folder / "run", tmp_path / "asked.parquet", "--out", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows[0][:4] == ["head", "relation", "tail", "'=note"]
    assert [row[3] for row in rows[1:]] == ["'@x", "-1.5"]  # a number is a number
    assert rows[2][0] == f"'{entity(12)}"


def test_what_is_made_of_a_run(folder: Path, tmp_path: Path) -> None:
    new = pd.DataFrame({"head": ["\x1b[2Jnew [b]"], "relation": [RELATIONS[0]], "tail": [entity(3)]})
    new.to_parquet(tmp_path / "new.parquet")
    harmless(call("update", folder / "run", tmp_path / "new.parquet", "--out", tmp_path / "updated", "--steps", 5))
    harmless(
        call("predict", folder / "run", "--with", tmp_path / "new.parquet", "--head", "\x1b[2Jnew [b]",
             "--relation", RELATIONS[0])
    )  # fmt: skip
    for form in ("parquet", "numpy", "word2vec", "tensorboard", "safetensors"):
        harmless(call("export", folder / "run", "--to", form, "--out", tmp_path / form))
    harmless(call("analyze", folder / "run", folder / "other", "--out", tmp_path / "report"))
    page = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert all(character == "\n" or shown(character) == character for character in page)


def test_rules(folder: Path, tmp_path: Path) -> None:
    mined = ("--model", "rules", "--minutes", 0.1)
    harmless(call("train", folder / "[graph].parquet", "--out", tmp_path / "rules", *mined))
    assert "[/red]/" in harmless(call("rules", tmp_path / "rules", "--top", 50))
    harmless(call("rules", tmp_path / "rules", "--json"))


def test_verdicts(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "run", tmp_path / "run")
    for place, verdict in ((4, "right"), (12, "wrong"), (9, "right")):
        fact = ("--head", entity(place), "--relation", RELATIONS[place % 3], "--tail", entity(place + 30))
        told = harmless(call("verdicts", tmp_path / "run", *fact, "--mark", verdict))
    assert r"\u202egnp.exe" in told
    harmless(call("verdicts", tmp_path / "run", "--json"))
    harmless(call("verdicts", tmp_path / "run", "--out", tmp_path / "verdicts.csv"))
    with (tmp_path / "verdicts.csv").open(newline="", encoding="utf-8") as file:
        assert {row["head"] for row in csv.DictReader(file)} == {entity(4), f"'{entity(12)}", entity(9)}


def test_probabilities_of_later_facts(folder: Path, tmp_path: Path) -> None:
    later = [(entity(i), RELATIONS[i % 3], entity(i + 40)) for i in range(len(HOSTILE))]
    pd.DataFrame(later, columns=["head", "relation", "tail"]).to_parquet(tmp_path / "later.parquet")
    shutil.copytree(folder / "run", tmp_path / "run")
    harmless(call("backtest", tmp_path / "run", tmp_path / "later.parquet"))
    harmless(call("calibrate", tmp_path / "run"))


def test_runs_of_several_runs(folder: Path, tmp_path: Path) -> None:
    graph = folder / "[graph].parquet"
    again = call("train", graph, "--out", tmp_path / "[/bold]again", "--model", "transher", "--seed", 1, *QUICK)
    assert "[/bold]again" in again.stderr
    harmless(again)
    harmless(call("join", folder / "run", tmp_path / "[/bold]again", "--out", tmp_path / "joined"))
    harmless(call("blend", folder / "run", folder / "other", "--out", tmp_path / "blend"))
    harmless(call("predict", tmp_path / "blend", "--head", entity(4), "--relation", RELATIONS[2]))
    search = ("--out", tmp_path / "[search]", "--trials", 1, "--space", "training.lr=0.01,0.1", "--model", "transher")
    harmless(call("search", graph, *search, *QUICK))


def test_a_prepared_graph(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    harmless(call("prepare", folder / "[graph].parquet", "--out", tmp_path / "[prepared]", "--held-out", 10))
    harmless(call("stats", tmp_path / "[prepared]"))


def test_every_command_that_shows_names_is_asked_for_hostile_ones() -> None:
    """Those that are left have no graph of the user's own to show."""
    asked = set(re.findall(r'call\(\s*"(\w+)"', Path(__file__).read_text("utf-8")))
    assert set(main.commands) - asked == {"datasets", "plan", "reproduce", "serve", "settings"}


def test_long_names_are_broken_between_their_parts() -> None:
    name = "/award/award_nominee/award_nominations./award/award_nomination/award_nominee"
    for width in range(13, 60):
        lines = wrapped(name, width)
        assert "".join(lines) == name
        assert all(line[-1] in "/_." for line in lines[:-1])
        assert max(map(len, lines)) <= width
    assert wrapped("Donaudampfschifffahrtsgesellschaft", 11) == ["Donau…chaft"]
    assert wrapped("of single words", 7) == ["of", "single", "words"]
