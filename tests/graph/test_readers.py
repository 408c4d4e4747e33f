"""What load_graph makes of files that are as they should be. What it says about others is in test_faults."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.graph.spelling import Spelled, every_spelled, lines, report_of, spelled, weights_of, write

from transher.graph import load_graph
from transher.graph.options import ChosenColumns

TRIPLES = [("b", "likes", "a"), ("a", "knows", "b"), ("c", "knows", "ü é"), ("ü é", "likes", "c")]
needs_data = pytest.mark.skipif("TRANSHER_DATA" not in os.environ, reason="TRANSHER_DATA names no folder of benchmarks")


TURTLE = """@prefix : <urn:> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:b :likes :a . :a :knows :b .
:a rdfs:label "Anna"@en , "Änne"@de ; rdfs:comment "a person" ; :age 5 .
:knows rdfs:label "is acquainted with" .
"""


@pytest.mark.parametrize("name", ["train.tsv", "train.txt", "train.tsv.gz", "train.csv", "train.csv.gz"])
def test_text_is_read_plain_and_packed(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, lines(TRIPLES, "," if "csv" in name else "\t"))
    write(tmp_path / "test.tsv", lines(TRIPLES[:1]))
    graph = load_graph(tmp_path)
    assert spelled(graph) == TRIPLES
    assert spelled(graph, "test") == TRIPLES[:1]
    assert graph.train.dtype == np.int32
    assert graph.entities.identifiers.to_pylist() == ["a", "b", "c", "ü é"]


@given(st.permutations(TRIPLES))
def test_ids_do_not_depend_on_the_order_of_lines(
    tmp_path_factory: pytest.TempPathFactory, shuffled: list[Spelled]
) -> None:
    path = write(tmp_path_factory.mktemp("graph") / "train.tsv", lines(shuffled))
    graph = load_graph(path)
    assert graph.entities.identifiers.to_pylist() == ["a", "b", "c", "ü é"]
    assert graph.relations.identifiers.to_pylist() == ["knows", "likes"]
    assert every_spelled(graph) == set(TRIPLES)


def test_ids_are_the_same_over_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triples = [(f"e{i % 97}", f"r{i % 5}", f"e{i * 7 % 89}") for i in range(3000)]
    write(tmp_path / "train.tsv", lines(triples))
    write(tmp_path / "test.tsv", lines(triples[:5]))
    whole = load_graph(tmp_path)
    monkeypatch.setattr("transher.graph.tables._BLOCK_BYTES", 256)
    in_blocks = load_graph(tmp_path)
    assert spelled(in_blocks) == list(dict.fromkeys(triples))
    assert (in_blocks.train == whole.train).all()


def test_quotes_mean_something_in_csv_and_nothing_in_tsv(tmp_path: Path) -> None:
    csv = write(
        tmp_path / "a.csv", 'head,relation,tail\n"Paris, Texas",in,"the ""Lone Star"" State"\n"two\nlines",in,x\n'
    )
    assert every_spelled(load_graph(csv)) == {
        ("Paris, Texas", "in", 'the "Lone Star" State'),
        ("two\nlines", "in", "x"),
    }
    tsv = write(tmp_path / "a.tsv", '"Paris\tin\tTexas"\n"\tin\t12"\n')
    assert every_spelled(load_graph(tsv)) == {('"Paris', "in", 'Texas"'), ('"', "in", '12"')}


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_blank_lines_byte_order_marks_and_line_ends_are_no_triples(tmp_path: Path, ends: str) -> None:
    path = write(tmp_path / "a.tsv", f"\ufeff{ends}a\tr\tb{ends}{ends}  {ends}b\tr\tc{ends}{ends}")
    assert every_spelled(load_graph(path)) == {("a", "r", "b"), ("b", "r", "c")}


def test_words_that_stand_for_nothing_elsewhere_are_identifiers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "NA\tnull\tNaN\nnan\tnull\tNone\n")
    assert every_spelled(load_graph(path)) == {("NA", "null", "NaN"), ("nan", "null", "None")}


@pytest.mark.parametrize(
    "header", ["tail,junk,Relation,head", "object,junk,predicate,subject", "target,junk,relation,source"]
)
def test_a_header_says_which_column_is_which(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "a.csv", f"{header}\nb,1,r,a\n")
    assert every_spelled(load_graph(path)) == {("a", "r", "b")}


@pytest.mark.parametrize("columns", [("who", "does", "whom"), (3, 1, 0)])
def test_columns_can_be_chosen_by_name_or_position(tmp_path: Path, columns: ChosenColumns) -> None:
    header = "whom\tdoes\tjunk\twho\n" if isinstance(columns[0], str) else ""
    path = write(tmp_path / "a.tsv", f"{header}b\tr\t1\ta\n")
    assert every_spelled(load_graph(path, columns=columns)) == {("a", "r", "b")}


def test_weights_follow_their_triples_and_those_of_duplicates_add_up(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", "head,relation,tail,weight\nb,r,c,2\na,r,b,0.5\nb,r,c,3\nc,r,a,1e1\na,r,b,0\n")
    write(tmp_path / "test.tsv", "a\tr\tc\n")
    graph = load_graph(tmp_path)
    assert spelled(graph) == [("b", "r", "c"), ("a", "r", "b"), ("c", "r", "a")]
    assert weights_of(graph).tolist() == [5, 0.5, 10]
    assert weights_of(graph).dtype == np.float32
    assert report_of(graph).duplicates == {"train": 2}


def test_weights_follow_their_triples_through_a_split(tmp_path: Path) -> None:
    rows = [f"e{i % 9},r,e{i // 9},{i}" for i in range(81)]
    graph = load_graph(write(tmp_path / "a.csv", "head,relation,tail,weight\n" + "\n".join(rows)))
    assert len(weights_of(graph)) == len(graph.train) < 81
    for (head, _, tail), weight in zip(spelled(graph), weights_of(graph), strict=True):
        assert weight == int(head[1:]) + 9 * int(tail[1:])


@pytest.mark.parametrize("names", [("head", "relation", "tail"), ("x", "y", "z")])
def test_parquet_is_read_by_names_or_in_order(tmp_path: Path, names: tuple[str, str, str]) -> None:
    columns = list(zip(*TRIPLES, strict=True))
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), tmp_path / "train.parquet")
    pq.write_table(pa.table({"h": [1, 2], "r": [7, 7], "t": [2, 1]}), tmp_path / "valid.parquet")
    graph = load_graph(tmp_path)
    assert spelled(graph) == TRIPLES
    assert spelled(graph, "valid") == [("1", "7", "2"), ("2", "7", "1")]


def test_parquet_may_have_weights_and_dictionaries(tmp_path: Path) -> None:
    heads = pa.array(["a", "b"]).dictionary_encode()
    table = pa.table({"weight": [1, 2], "head": heads, "relation": ["r", "r"], "tail": ["b", "c"]})
    pq.write_table(table, tmp_path / "train.parquet")
    write(tmp_path / "test.tsv", "a\tr\tc\n")
    graph = load_graph(tmp_path)
    assert spelled(graph) == [("a", "r", "b"), ("b", "r", "c")]
    assert weights_of(graph).tolist() == [1, 2]


@pytest.mark.parametrize("name", ["a.ttl", "a.ttl.gz"])
def test_turtle_gives_triples_names_and_descriptions(tmp_path: Path, name: str) -> None:
    graph = load_graph(write(tmp_path / name, TURTLE))
    assert every_spelled(graph) == {("urn:b", "urn:likes", "urn:a"), ("urn:a", "urn:knows", "urn:b")}
    assert graph.entities.labels([0, 1]) == ["Anna", "b"]
    assert graph.entities.descriptions is not None
    assert graph.entities.descriptions.to_pylist() == ["a person", None]
    assert graph.relations.label(0) == "is acquainted with"
    assert report_of(graph).literals_left_out == 1


def test_literals_become_entities_if_asked(tmp_path: Path) -> None:
    graph = load_graph(write(tmp_path / "a.ttl", TURTLE), literals="keep")
    assert ("urn:a", "urn:age", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>') in every_spelled(graph)
    assert report_of(graph).literals_left_out == 0


def test_n_triples_keep_iris_and_blank_nodes_and_unicode(tmp_path: Path) -> None:
    write(tmp_path / "train.nt", "<urn:a> <urn:r> <urn:\\u00FC> .\n_:x <urn:r> <urn:a> .\n")
    write(tmp_path / "test.nt.gz", "<urn:a> <urn:r> _:x .\n")
    assert spelled(load_graph(tmp_path)) == [("urn:a", "urn:r", "urn:ü"), ("_:x", "urn:r", "urn:a")]


def test_nameless_nodes_of_turtle_have_the_same_identifiers_at_every_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ttl", "@prefix : <urn:> . :a :r [ :s :b ] , [ :s :c ] . _:x :r :a .")
    identifiers = load_graph(path).entities.identifiers.to_pylist()
    assert identifiers == ["_:a.1", "_:a.2", "_:x", "urn:a", "urn:b", "urn:c"]
    # Labels are drawn of different lengths: one in sixteen is shorter than most.
    many = write(tmp_path / "many.ttl", "@prefix : <urn:> . " + "".join(f":a :r [ :s :b{i} ] . " for i in range(2000)))
    assert sum(name.startswith("_:many.") for name in load_graph(many).entities.identifiers.to_pylist()) == 2000


@pytest.mark.parametrize("valid", ["valid.tsv", "validation.txt", "dev.csv.gz", "val.tsv"])
def test_a_folder_may_mix_forms_and_spellings(tmp_path: Path, valid: str) -> None:
    write(tmp_path / "train.tsv", lines(TRIPLES))
    write(tmp_path / valid, lines(TRIPLES[1:2], "," if "csv" in valid else "\t"))
    graph = load_graph(tmp_path)
    assert spelled(graph, "valid") == TRIPLES[1:2]
    assert len(graph.test) == 0
    assert report_of(graph).split_by_seed is None


def test_names_come_from_the_folder_and_from_files_that_are_given(tmp_path: Path) -> None:
    write(tmp_path / "g/train.tsv", lines(TRIPLES))
    write(tmp_path / "g/test.tsv", lines(TRIPLES[:1]))
    write(tmp_path / "g/entity_names.tsv", 'b\tBob "the b"\nnobody\tNobody\na\tAnna\tfirst of all\nc\t\n')
    write(tmp_path / "g/relation_names.tsv", "likes\tis fond of\n")
    write(tmp_path / "more.tsv", "b\tRobert\n")
    graph = load_graph(tmp_path / "g", entity_names=tmp_path / "more.tsv")
    assert graph.entities.labels(range(4)) == ["Anna", "Robert", "c", "ü é"]
    assert graph.entities.descriptions is not None
    assert graph.entities.descriptions.to_pylist() == ["first of all", None, None, None]
    assert graph.relations.labels([0, 1]) == ["knows", "is fond of"]
    assert load_graph(tmp_path / "g").entities.label(1) == 'Bob "the b"'


def test_a_single_file_is_split_and_the_seed_decides_how(tmp_path: Path) -> None:
    triples = [(f"e{i % 20}", "r", f"e{(i * i + 3) % 20}") for i in range(400)]
    path = write(tmp_path / "some graph.tsv", lines(triples))
    graph = load_graph(path, seed=1)
    assert every_spelled(graph) == set(triples)
    assert len(graph.valid) > 0
    assert len(graph.test) > 0
    assert (load_graph(path, seed=1).test == graph.test).all()
    assert spelled(load_graph(path, seed=2), "test") != spelled(graph, "test")
    assert report_of(graph).split_by_seed == 1
    assert report_of(graph).unfilled == ()
    assert graph.name == "some graph"


def test_a_file_too_small_to_be_split_is_told(tmp_path: Path) -> None:
    (tmp_path / "few.tsv").write_text("a\tr\tb\n")
    report = load_graph(tmp_path / "few.tsv").load_report
    assert report is not None
    assert report.lines() == ["There are too few triples to spare any for valid and test."]
    assert report_of(load_graph(tmp_path / "few.tsv", fractions=(1, 0, 0))).lines() == []


def test_what_train_does_not_have_is_reported_and_kept_or_dropped(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", "b\tr\td\n")
    write(tmp_path / "valid.tsv", "a\tr\tb\nd\tr\tb\n")
    write(tmp_path / "test.tsv", "d\tnew\tb\nc\tr\tb\nd\tr\tb\n")
    kept = load_graph(tmp_path)
    assert len(kept.test) == 3
    assert (report_of(kept).unseen.entities, report_of(kept).unseen.relations) == (2, 1)
    assert report_of(kept).unseen.triples == {"valid": 1, "test": 2}
    assert report_of(kept).unseen.examples == ("a", "c", "new")
    dropped = load_graph(tmp_path, unseen="drop")
    assert dropped.entities.identifiers.to_pylist() == ["b", "d"]
    assert dropped.relations.identifiers.to_pylist() == ["r"]
    assert spelled(dropped) == [("b", "r", "d")]
    assert spelled(dropped, "valid") == spelled(dropped, "test") == [("d", "r", "b")]


def test_duplicates_and_overlaps_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", lines([*TRIPLES, *TRIPLES[:2]]))
    write(tmp_path / "test.tsv", lines(TRIPLES[2:]))
    write(tmp_path / "valid.tsv", lines(TRIPLES[3:]))
    report = report_of(load_graph(tmp_path))
    assert report.duplicates == {"train": 2}
    assert report.overlaps == {"train/valid": 1, "train/test": 2, "valid/test": 1}
    assert "2 triples stand in both train and test." in report.lines()


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_an_openke_folder_lists_head_tail_relation(tmp_path: Path, separator: str) -> None:
    write(tmp_path / "entity2id.txt", "4\nz\t0\ny\t1\nx\t2\nalone\t3\n")
    write(tmp_path / "relation2id.txt", "2\nsecond\t0\nfirst\t1\n")
    write(tmp_path / "train2id.txt", f"2\n0{separator}1{separator}1\r\n2{separator}0{separator}0\r\n")
    write(tmp_path / "test2id.txt", f"1\n1{separator}2{separator}0\n")
    graph = load_graph(tmp_path)
    assert graph.entities.identifiers.to_pylist() == ["alone", "x", "y", "z"]
    assert spelled(graph) == [("z", "first", "y"), ("x", "second", "z")]
    assert spelled(graph, "test") == [("y", "second", "x")]


@needs_data
def test_fb15k_237_is_the_benchmark_that_everyone_uses() -> None:
    graph = load_graph(Path(os.environ["TRANSHER_DATA"]) / "FB15k-237")
    assert (len(graph.train), len(graph.valid), len(graph.test)) == (272_115, 17_535, 20_466)
    assert (len(graph.entities), len(graph.relations)) == (14_541, 237)
    assert graph.entities.names is not None
    assert graph.entities.names.null_count == 0
    assert report_of(graph).unseen.triples == {"valid": 9, "test": 28}


@needs_data
def test_db100k_names_a_part_and_has_duplicates() -> None:
    graph = load_graph(Path(os.environ["TRANSHER_DATA"]) / "DB100K")
    assert (len(graph.entities), len(graph.relations)) == (99_604, 470)
    assert report_of(graph).duplicates["train"] == 90
    assert len(graph.train) == 597_482
    assert graph.entities.names is not None
    assert len(graph.entities) - graph.entities.names.null_count == 65_585
    assert graph.entities.label(graph.entities.find("Q100")) == "Boston"
