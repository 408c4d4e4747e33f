from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from transher.errors import InputError, UsageError
from transher.graph import load_graph, preparing
from transher.graph.prepared import triples_in
from transher.graph.preparing import prepare

TRIPLES = sorted({(f"e{i * 7 % 40}", f"r{i % 3}", f"e{i * 11 % 41}") for i in range(200)})


def write_tsv(path: Path, triples: list[tuple[str, str, str]]) -> Path:
    path.write_text("".join("\t".join(triple) + "\n" for triple in triples))
    return path


def spelled(folder: Path) -> set[tuple[str, str, str]]:
    graph = load_graph(folder)
    entities, relations = graph.entities.identifiers.to_pylist(), graph.relations.identifiers.to_pylist()
    return {(entities[h], relations[r], entities[t]) for h, r, t in graph.all_triples.tolist()}


def test_the_order_of_lines_does_not_matter(tmp_path: Path) -> None:
    shuffled = random.Random(0).sample(TRIPLES * 2, 2 * len(TRIPLES))
    first = prepare([write_tsv(tmp_path / "a.tsv", TRIPLES)], tmp_path / "first", held_out=5)
    second = prepare([write_tsv(tmp_path / "a.tsv", shuffled)], tmp_path / "second", held_out=5)
    assert first == second
    assert load_graph(tmp_path / "first").equals(load_graph(tmp_path / "second"))
    assert spelled(tmp_path / "first") == set(TRIPLES)
    assert first.valid == first.test == 5


def test_every_format_gives_the_same_graph(tmp_path: Path) -> None:
    columns = dict(zip(("head", "relation", "tail"), map(list, zip(*TRIPLES, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "graph.parquet")
    rows = "".join(",".join(triple) + "\n" for triple in TRIPLES)
    (tmp_path / "graph.csv").write_text("head,relation,tail\n" + rows)
    lines = [f"<{h}> <{r}> <{t}> .\n" for h, r, t in TRIPLES]
    (tmp_path / "graph.nt").write_text("".join(lines) + '<e1> <label> "a literal" .\n# a comment\n')
    write_tsv(tmp_path / "graph.tsv", TRIPLES)
    (tmp_path / "graph.TSV.GZ").write_bytes(gzip.compress((tmp_path / "graph.tsv").read_bytes()))
    (tmp_path / "graph.Csv").write_bytes((tmp_path / "graph.csv").read_bytes())
    for ending in ("tsv", "csv", "parquet", "nt", "TSV.GZ", "Csv"):
        prepare([tmp_path / f"graph.{ending}"], tmp_path / ending)
        assert spelled(tmp_path / ending) == set(TRIPLES)
        assert load_graph(tmp_path / ending).equals(load_graph(tmp_path / "tsv"))


@pytest.mark.parametrize(("ending", "mark"), [("csv", ","), ("csv", ";"), ("tsv", "\t")])
@pytest.mark.parametrize(
    ("header", "order"),
    [
        ([], (0, 1, 2)),
        (["Head", "relation", "tail"], (0, 1, 2)),
        (["object", "subject", "year", "predicate"], (2, 0, 3, 1)),
    ],
    ids=["none", "in order", "in another order"],
)
def test_the_first_line_is_a_header_if_it_names_the_columns(
    tmp_path: Path, ending: str, mark: str, header: list[str], order: tuple[int, ...]
) -> None:
    path = tmp_path / f"graph.{ending}"
    rows = [[*triple, "1903"] for triple in TRIPLES]
    lines = [header] * bool(header) + [[row[place] for place in order] for row in rows]
    path.write_text("".join(mark.join(line) + "\n" for line in lines))
    prepare([path], tmp_path / "out")
    assert spelled(tmp_path / "out") == set(TRIPLES)


def test_an_empty_file_of_a_split_has_no_triples(tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", TRIPLES)
    for name in ("valid.tsv", "test.csv"):
        (tmp_path / name).write_text("")
    found = prepare([tmp_path], tmp_path / "out")
    assert found.train + found.valid + found.test == len(TRIPLES)


def test_columns_that_no_header_names_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.csv"
    path.write_text("who,year,what,whom\nCurie,1903,won,Nobel Prize\n")
    with pytest.raises(InputError, match="4 columns"):
        prepare([path], tmp_path / "out")


def test_splits_of_files_stay_and_train_comes_first(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    folder.mkdir()
    write_tsv(folder / "train.tsv", TRIPLES[:-20])
    write_tsv(folder / "valid.tsv", TRIPLES[-20:-10])
    write_tsv(folder / "test.tsv", [*TRIPLES[-10:], TRIPLES[0]])
    found = prepare([folder], tmp_path / "out")
    assert (found.train, found.valid, found.test) == (len(TRIPLES) - 20, 10, 10)
    assert found.ignored == ()


def test_a_folder_may_hold_more_than_triples(tmp_path: Path) -> None:
    folder = tmp_path / "graph"
    (folder / "train").mkdir(parents=True)  # not a file
    write_tsv(folder / "part-0.tsv", TRIPLES[:10])
    (folder / "entity_names.tsv").write_text("a\tA\n")
    (folder / "README.md").write_text("a graph")
    found = prepare([folder], tmp_path / "parts", held_out=0)
    assert (found.train, found.ignored) == (10, ("README.md", "entity_names.tsv"))
    write_tsv(folder / "train-0.tsv", TRIPLES[:30])
    write_tsv(folder / "train-1.tsv", TRIPLES[30:-5])
    write_tsv(folder / "dev.tsv", TRIPLES[-5:])
    found = prepare([folder], tmp_path / "splits")
    assert (found.train, found.valid, found.test) == (len(TRIPLES) - 5, 5, 0)
    assert found.ignored == ("README.md", "entity_names.tsv", "part-0.tsv")


def test_parts_are_ranges_in_both_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "_PART", 30)
    found = prepare([write_tsv(tmp_path / "a.tsv", TRIPLES)], tmp_path / "out", held_out=0)
    assert found.parts > 3
    graph = load_graph(tmp_path / "out")
    assert np.array_equal(triples_in(tmp_path / "out", "by_head", 0, found.entities), graph.train)
    h, r, t = graph.train.T
    assert np.array_equal(graph.train, graph.train[np.lexsort((t, r, h))])
    middle = triples_in(tmp_path / "out", "by_tail", 7, 23)
    expected = graph.train[(t >= 7) & (t < 23)]
    assert np.array_equal(middle, expected[np.lexsort((expected[:, 0], expected[:, 1], expected[:, 2]))])


def test_a_stopped_preparation_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_tsv(tmp_path / "a.tsv", TRIPLES)
    prepare([source], tmp_path / "whole")
    for name in ("_distinct", "_sizes"):
        with monkeypatch.context() as patch:
            patch.setattr(preparing._Preparation, name, lambda self: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                prepare([source], tmp_path / "out")
        assert not (tmp_path / "out" / "prepared.json").exists()
    monkeypatch.setattr(preparing._Preparation, "_read", lambda self: 1 / 0)  # was done, and is not done again
    prepare([source], tmp_path / "out")
    assert load_graph(tmp_path / "out").equals(load_graph(tmp_path / "whole"))


def test_what_cannot_be_prepared_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        prepare([tmp_path / "nothing.tsv"], tmp_path / "out")
    (tmp_path / "graph.xyz").write_text("")
    with pytest.raises(InputError, match="kind"):
        prepare([tmp_path / "graph.xyz"], tmp_path / "out")
    with pytest.raises(InputError, match="kind"):
        prepare([write_tsv(tmp_path / "graph.tsv.bz2", TRIPLES)], tmp_path / "out")
    (tmp_path / "short.tsv").write_text("a\tr\tb\na\tr\n")
    with pytest.raises(InputError, match=r"cannot be read.*Line: 2.*Expected") as told:
        prepare([tmp_path / "short.tsv"], tmp_path / "short")
    assert "\n" not in str(told.value)
    with pytest.raises(UsageError, match="memory"):
        prepare([write_tsv(tmp_path / "a.tsv", TRIPLES)], tmp_path / "out", memory="lots")
    prepare([tmp_path / "a.tsv"], tmp_path / "out")
    with pytest.raises(UsageError, match="already"):
        prepare([tmp_path / "a.tsv"], tmp_path / "out")


@pytest.mark.parametrize("length", [3_000_000, 40_000_000])  # DuckDB refuses the one, and would leave out the other
def test_no_line_is_left_out_because_it_is_long(tmp_path: Path, length: int) -> None:
    rows = "".join("\t".join(triple) + "\n" for triple in TRIPLES)
    (tmp_path / "long.tsv").write_text(rows + "a\tr\t" + "x" * length)
    with pytest.raises(InputError, match="longer than"):
        prepare([tmp_path / "long.tsv"], tmp_path / "out")
