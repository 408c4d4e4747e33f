"""Which line is a header, which column is which, and what stands around a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.graph.spelling import every_spelled, report_of, weights_of, write

from transher.cli.main import main
from transher.errors import InputError, UsageError
from transher.graph import load_graph

ROWS = "apt,1.0,depends,libc\nbash,2.1,depends,libc\nlibc,3.0,suggests,bash\n"
TRIPLES = {("apt", "depends", "libc"), ("bash", "depends", "libc"), ("libc", "suggests", "bash")}


@pytest.mark.parametrize(
    "header",
    [
        "package,version,kind,other\n",
        "source,version,relation,target\n",
        "\nPackage,Version,Depends-Type,Dependency\n",
        '"the, package",version,"a\nkind",other\n',
    ],
)
def test_a_header_is_no_triple_where_columns_are_given_by_position(tmp_path: Path, header: str) -> None:
    graph = load_graph(write(tmp_path / "a.csv", header + ROWS), columns=(0, 2, 3))
    assert every_spelled(graph) == TRIPLES
    assert graph.entities.identifiers.to_pylist() == ["apt", "bash", "libc"]
    assert graph.relations.identifiers.to_pylist() == ["depends", "suggests"]


def test_a_header_that_was_found_by_its_words_alone_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "package,version,kind,other\n" + ROWS)
    report = report_of(load_graph(tmp_path / "a.csv", columns=(0, 2, 3)))
    assert report.headers[0].startswith("a.csv: the first line (package, version, kind, other) was taken as a header")
    assert "--header no" in report.headers[0]


def test_a_first_line_that_others_share_words_with_is_a_triple(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ROWS)
    assert every_spelled(load_graph(tmp_path / "a.csv", columns=(0, 2, 3))) == TRIPLES
    write(tmp_path / "two.csv", "a,1,r,b\nc,2,s,d\n")
    assert len(every_spelled(load_graph(tmp_path / "two.csv", columns=(0, 2, 3)))) == 2


def test_a_weight_that_is_no_number_is_a_header(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "apt,depends,libc,trust\napt,depends,libc,2\nbash,depends,libc,1\n")
    graph = load_graph(tmp_path / "a.csv", columns=(0, 1, 2, 3), fractions=(1, 0, 0))
    assert sorted(weights_of(graph).tolist()) == [1, 2]


def test_the_header_option_decides(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "package,kind,other\napt,depends,libc\nbash,depends,libc\n")
    assert len(every_spelled(load_graph(path, header="yes"))) == 2
    graph = load_graph(path)
    assert len(every_spelled(graph)) == 3
    assert "If it is a header: --header yes" in report_of(graph).lines()[0]
    assert len(every_spelled(load_graph(path, header="no", columns=(0, 1, 2)))) == 3
    assert len(every_spelled(load_graph(path, header="yes", columns=(0, 1, 2)))) == 2
    known = write(tmp_path / "known.tsv", "head\trelation\ttail\na\tr\tb\n")
    assert ("head", "relation", "tail") in every_spelled(load_graph(known, header="no"))
    with pytest.raises(UsageError, match="only where a header names them"):
        load_graph(path, header="no", columns=("package", "kind", "other"))


def test_the_command_line_has_the_options(tmp_path: Path) -> None:
    path = write(tmp_path / "a.data", "who;what;whom\n zoë ;knows;bob\nbob;knows\nbob;knows; zoë\n".encode("latin-1"))
    given = ["--format", "csv", "--delimiter", ";", "--encoding", "latin-1", "--skip-bad-rows", "--columns", "0,1,2"]
    done = CliRunner().invoke(main, ["stats", str(path), "--header", "yes", *given])
    assert done.exit_code == 0, done.output
    assert "1 bad rows skipped (a.data, line 3: 2 columns" in done.stderr
    assert "2 identifiers had spaces around them" in done.stderr
    assert "2 entities, 1 relations" in done.stdout


def test_spaces_around_names_are_removed_and_counted(tmp_path: Path) -> None:
    graph = load_graph(write(tmp_path / "a.csv", "apt , depends,libc\n libc,depends,bash\napt,depends , bash\u00a0\n"))
    assert every_spelled(graph) == {("apt", "depends", "libc"), ("libc", "depends", "bash"), ("apt", "depends", "bash")}
    assert report_of(graph).trimmed == 5
    assert "5 identifiers had spaces around them, which were removed." in report_of(graph).lines()


def test_duplicates_are_said_to_be_removed_and_the_rest_to_remain(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "a\tr\tb\n" * 3 + "b\tr\tc\n")
    done = CliRunner().invoke(main, ["stats", str(path)])
    assert "2 triples that repeat others were removed from train while reading." in done.stderr
    assert "Duplicate triples: 0" in done.stdout


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a;r;b\n", r"1 column and no header.*separated by ';'\? Say so with --delimiter ';'"),
        ("a,r,b,x\n", "4 columns and no header that names them: a, r, b, x.*--columns 0,1,2"),
        ("subject,predicate,whom\na,r,b\n", "no column for the tail: subject, predicate, whom.*--columns"),
    ],
)
def test_errors_name_the_columns_that_were_found_and_the_option_that_helps(
    tmp_path: Path, text: str, what: str
) -> None:
    with pytest.raises(InputError, match=what):
        load_graph(write(tmp_path / "a.csv", text))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"columns": (0, 1)}, "name three"),
        ({"columns": "abc"}, "name three"),
        ({"columns": (0, "a", 2)}, "all by their names or all by their positions"),
        ({"header": "maybe"}, "'auto', 'yes' or 'no'"),
        ({"format": "cvs"}, "Unknown format 'cvs'. Did you mean 'csv'"),
        ({"delimiter": "ab"}, "one character"),
        ({"encoding": "latin-99"}, "Unknown encoding"),
        ({"encoding": "hex"}, "Unknown encoding"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        load_graph(write(tmp_path / "a.tsv", "a\tr\tb\n"), **options)


@pytest.mark.parametrize("header", [":START_ID,:END_ID,:TYPE", "_start,_end,_type"])
def test_the_headers_of_neo4j_are_known(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "a.csv", f"{header}\n1,2,KNOWS\n2,3,KNOWS\n")
    assert every_spelled(load_graph(path)) == {("1", "KNOWS", "2"), ("2", "KNOWS", "3")}


def test_a_space_between_comma_and_quote_is_no_part_of_a_name(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", 'head, relation, tail\n"Reeves, K.", "ACTED_IN", "The Matrix"\n"B", "R", "C ""D"""\n'
    )
    assert every_spelled(load_graph(path)) == {("Reeves, K.", "ACTED_IN", "The Matrix"), ("B", "R", 'C "D"')}
