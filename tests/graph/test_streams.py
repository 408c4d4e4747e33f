"""Packed, encoded and part files; and files that would not fit into memory if they were believed."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.graph.spelling import every_spelled, lines, packed, report_of, weights_of, write

from transher.errors import InputError
from transher.graph import load_graph
from transher.graph.streams import LONGEST_LINE

TRIPLES = [("urn:a", "urn:r", "urn:b"), ("urn:b", "urn:r", "urn:ü"), ("urn:b", "urn:s", "urn:a")]
NT = "".join(" ".join(f"<{word}>" for word in triple) + " .\n" for triple in TRIPLES)
RDF = """<?xml version="1.0"?><!DOCTYPE rdf:RDF [<!ENTITY u "urn:">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="urn:">
<rdf:Description rdf:about="&u;a"><r rdf:resource="urn:b"/></rdf:Description>
<rdf:Description rdf:about="urn:b"><r rdf:resource="urn:ü"/><s rdf:resource="urn:a"/></rdf:Description>
</rdf:RDF>
"""
TEXTS = {
    ".tsv": lines(TRIPLES),
    ".txt": lines(TRIPLES),
    ".csv": lines(TRIPLES, ","),
    ".jsonl": "".join('["{}", "{}", "{}"]\n'.format(*triple) for triple in TRIPLES),
    ".nt": NT,
    ".nq": NT.replace(" .\n", " <urn:some-graph> .\n"),
    ".ttl": "@prefix : <urn:> . :a :r :b . :b :r :ü ; :s :a .",
    ".trig": "@prefix : <urn:> . :g { :a :r :b . } :b :r :ü ; :s :a .",
    ".rdf": RDF,
    ".owl": RDF,
}


@pytest.mark.parametrize("packing", ["", ".gz", ".bz2", ".zst", ".GZ"])
@pytest.mark.parametrize("ending", TEXTS)
def test_every_form_is_read_plain_and_packed_whatever_the_case_of_its_ending(
    tmp_path: Path, ending: str, packing: str
) -> None:
    for form in (ending, ending.upper()):
        graph = load_graph(write(tmp_path / f"A{form}{packing}", TEXTS[ending]))
        assert every_spelled(graph) == set(TRIPLES)
        assert graph.name == "A"


def test_the_case_of_parquets_ending_says_nothing(tmp_path: Path) -> None:
    columns = dict(zip("hrt", zip(*TRIPLES, strict=True), strict=True))
    pa.parquet.write_table(pa.table(columns), tmp_path / "A.Parquet")
    assert every_spelled(load_graph(tmp_path / "A.Parquet")) == set(TRIPLES)


@pytest.mark.parametrize("ending", [".nt", ".tsv", ".parquet", ".csv.gz"])
def test_a_folder_of_parts_is_one_graph(tmp_path: Path, ending: str) -> None:
    for number, triple in enumerate(TRIPLES):
        path = tmp_path / "g" / f"part-{number:04}{ending}"
        if ending == ".parquet":
            path.parent.mkdir(exist_ok=True)
            pa.parquet.write_table(pa.table([[word] for word in triple], names=["h", "r", "t"]), path)
        elif ending == ".nt":
            write(path, NT.splitlines()[number])
        else:
            write(path, lines([triple], "," if "csv" in ending else "\t"))
    write(tmp_path / "g" / "_SUCCESS", "")
    write(tmp_path / "g" / "entity_names.tsv", "urn:a\tAnna\n")
    graph = load_graph(tmp_path / "g")
    assert every_spelled(graph) == set(TRIPLES)
    assert report_of(graph).split_by_seed == 0
    assert report_of(graph).files == {"train": f"part-0000{ending} … part-0002{ending} (3 files)"}
    assert graph.entities.label(0) == "Anna"
    assert graph.name == "g"


def test_parts_of_several_forms_or_columns_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "part-0.csv", "head,relation,tail,weight\na,r,b,1\n")
    write(tmp_path / "part-1.csv", "head,relation,tail\na,r,b\n")
    with pytest.raises(InputError, match=r"part-1.csv: has no weights, in contrast to part-0.csv"):
        load_graph(tmp_path)
    write(tmp_path / "part-1.nt", NT)
    with pytest.raises(InputError, match=r"\.csv and \.nt files, which cannot all be parts"):
        load_graph(tmp_path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "utf-8-sig"])
def test_files_in_other_encodings_are_read(tmp_path: Path, encoding: str) -> None:
    for ending in (".tsv", ".csv", ".ttl"):
        path = write(tmp_path / f"a{ending}", TEXTS[ending].encode(encoding))
        assert every_spelled(load_graph(path, encoding=encoding)) == set(TRIPLES)


def test_the_encoding_option_is_named_where_it_helps(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2: byte 17 is not UTF-8.*--encoding latin-1"):
        load_graph(write(tmp_path / "a.tsv", TEXTS[".tsv"].encode("latin-1")))
    with pytest.raises(InputError, match="--encoding utf-16"):
        load_graph(write(tmp_path / "a.tsv", TEXTS[".tsv"].encode("utf-16")))
    with pytest.raises(InputError, match="cannot be decoded as utf-16"):
        load_graph(write(tmp_path / "a.tsv", b"a\tr\tb"), encoding="utf-16")


def test_the_format_option_says_what_the_ending_does_not(tmp_path: Path) -> None:
    path = write(tmp_path / "dump.data", lines(TRIPLES, "|"))
    with pytest.raises(InputError, match=r"does not say what kind of file it is.*--format tsv"):
        load_graph(path)
    assert every_spelled(load_graph(path, format="tsv", delimiter="|")) == set(TRIPLES)
    assert every_spelled(load_graph(write(tmp_path / "dump.gz", NT), format="NT")) == set(TRIPLES)


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".jsonl"])
@pytest.mark.parametrize("ends", ["\r", "\r\n"])
def test_lines_may_end_in_carriage_returns(tmp_path: Path, ending: str, ends: str) -> None:
    path = write(tmp_path / f"a{ending}", TEXTS[ending].replace("\n", ends))
    assert every_spelled(load_graph(path)) == set(TRIPLES)
    broken = write(tmp_path / f"b{ending}", f"{TEXTS[ending]}\rx\ty\n".replace("\n", ends))
    with pytest.raises(InputError, match=r"line [456]: "):
        load_graph(broken)


@pytest.mark.parametrize("ending", [".tsv", ".csv", ".txt"])
def test_bad_rows_are_skipped_counted_and_listed(tmp_path: Path, ending: str) -> None:
    separator = "," if ending == ".csv" else "\t"
    good = lines(TRIPLES, separator)
    bad = separator.join("ab") + "\n" + separator.join(["a", "", "b"]) + "\n"
    path = write(tmp_path / f"a{ending}", good.encode() + bad.encode() + b"\xff\n" * 5 + good.encode())
    with pytest.raises(InputError, match=r"line 4: 2 columns .*--skip-bad-rows"):
        load_graph(path)
    graph = load_graph(path, skip_bad_rows=True)
    assert every_spelled(graph) == set(TRIPLES)
    assert report_of(graph).bad_rows == 7
    assert report_of(graph).bad_row_examples[1] == f"a{ending}, line 5: the relation is empty."
    assert report_of(graph).bad_row_examples[2] == f"a{ending}, line 6: byte 1 is not UTF-8."
    assert any("7 bad rows skipped" in line for line in report_of(graph).lines())


def test_weights_of_bad_rows_are_skipped_with_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "head,relation,tail,weight\na,r,b,1\na,r,c,x\na,r,d,3\n")
    graph = load_graph(path, skip_bad_rows=True, fractions=(1, 0, 0))
    assert weights_of(graph).tolist() == [1, 3]


@pytest.mark.parametrize("ending", [".nt", ".nq"])
def test_bad_statements_are_skipped(tmp_path: Path, ending: str) -> None:
    path = write(
        tmp_path / f"a{ending}", TEXTS[ending].encode() + b"<urn:a> nothing .\n\xff\n" + TEXTS[ending].encode()
    )
    with pytest.raises(InputError, match=r"line 4: .*--skip-bad-rows"):
        load_graph(path)
    graph = load_graph(path, skip_bad_rows=True)
    assert every_spelled(graph) == set(TRIPLES)
    assert report_of(graph).bad_rows == 2


def test_bad_rows_may_stand_first(tmp_path: Path) -> None:
    for ending, separator in ((".tsv", "\t"), (".csv", ",")):
        path = write(tmp_path / f"a{ending}", b"\xff\n" + lines(TRIPLES, separator).encode())
        graph = load_graph(path, skip_bad_rows=True, columns=(0, 1, 2))
        assert every_spelled(graph) == set(TRIPLES)
        assert report_of(graph).bad_rows == 1


def test_a_file_of_bad_rows_alone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no triples but bad rows. The first: a.tsv, line 1: the head is empty"):
        load_graph(write(tmp_path / "a.tsv", "\tr\tb\n"), skip_bad_rows=True)


@pytest.mark.parametrize("ending", TEXTS)
@pytest.mark.parametrize("packing", [".gz", ".bz2", ".zst"])
def test_packed_files_that_are_broken_are_said_to_be(tmp_path: Path, ending: str, packing: str) -> None:
    data = packed(TEXTS[ending].encode() * 50, packing)
    for number, broken in enumerate((data[:-5], b"\0" * 30, data[:20] + b"\xff" * 20 + data[40:])):
        path = tmp_path / f"{number}{ending}{packing}"
        path.write_bytes(broken)
        with pytest.raises(InputError, match=str(path)):
            load_graph(path)


def test_long_values_are_read_and_too_long_lines_are_refused(tmp_path: Path) -> None:
    long = "x" * 300_000
    for ending, separator in ((".tsv", "\t"), (".csv", ",")):
        assert (long, "r", "b") in every_spelled(
            load_graph(write(tmp_path / f"a{ending}", f"{long}{separator}r{separator}b\n"))
        )
        path = write(tmp_path / f"bad{ending}", f"{long}{separator}r{separator}b\na\n")
        with pytest.raises(InputError, match="line 2: 1 column"):
            load_graph(path)
        too_long = write(tmp_path / f"long{ending}", f"a{separator}r{separator}b\n{'x' * (LONGEST_LINE + 5)}\n")
        for skip in (False, True):
            with pytest.raises(InputError, match="line 2: a line is longer than 1,048,576 bytes"):
                load_graph(too_long, skip_bad_rows=skip)


def test_a_quote_that_is_not_closed_is_named(tmp_path: Path) -> None:
    for rows in (1, 100, 500_000):
        path = write(tmp_path / "a.csv", 'a,r,b\na,r,"c\n' + "d,r,e\n" * rows)
        with pytest.raises(InputError, match="line 2: a quote opens a value that does not end"):
            load_graph(path)
    inches = write(tmp_path / "b.csv", 'a disk,size,5" wide\na tape,size,"5"" wide"\n')
    assert ("a disk", "size", '5" wide') in every_spelled(load_graph(inches))


BOMB = """
import gzip, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from transher.errors import InputError
from transher.graph import load_graph
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_graph(sys.argv[1])
except InputError as error:
    print(error)
    sys.exit(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > 200 << 10)
sys.exit(2)
"""


@pytest.mark.parametrize(
    ("ending", "start"),
    [
        (".tsv", b"a\tr\tb\n"),
        (".csv", b'a,r,b\n"'),
        (".jsonl", b'["a", "r", "b"]\n["'),
        (".nt", b'<urn:a> <urn:r> "'),
        (".ttl", b'<urn:a> <urn:r> "'),
        (".trig", b'<urn:a> <urn:r> "'),
        (".rdf", RDF.encode() + b"<!--"),
    ],
)
def test_a_small_file_that_unpacks_to_gigabytes_does_not_fill_the_memory(
    tmp_path: Path, ending: str, start: bytes
) -> None:
    path = tmp_path / f"bomb{ending}.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(start)
        for _ in range(600):
            file.write(b"x" * (1 << 20))
    done = subprocess.run([sys.executable, "-c", BOMB, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert str(path) in done.stdout


def test_xml_entities_that_multiply_are_refused(tmp_path: Path) -> None:
    nested = "".join(
        f'<!ENTITY {one} "{f"&{other};" * 10}">' for other, one in zip("abcdefgh", "bcdefghi", strict=True)
    )
    bomb = RDF.replace('<!ENTITY u "urn:">', f'<!ENTITY u "urn:"><!ENTITY a "aaaaaaaaaa">{nested}')
    for text in (bomb, bomb.replace("<!DOCTYPE", f"<!--{'x </> ' * 400_000}--><!DOCTYPE")):
        with pytest.raises(InputError, match="declares XML entities that are long or refer to others"):
            load_graph(write(tmp_path / "a.rdf", text))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 << 20


def test_xml_that_is_nested_very_deeply_is_refused(tmp_path: Path) -> None:
    start, end = RDF.rsplit("</rdf:RDF>", 1)
    for depth in (2_000, 200_000):
        path = write(
            tmp_path / f"{depth}.rdf", f"{start}{'<A><r>' * (depth // 2)}{'</r></A>' * (depth // 2)}</rdf:RDF>{end}"
        )
        if depth == 2_000:
            assert len(load_graph(path).entities) > 1_000
            continue
        with pytest.raises(InputError, match="nested more than 5,000 deep"):
            load_graph(path)
    wide = RDF.replace(
        "</rdf:RDF>", '<rdf:Description rdf:about="urn:a"><r rdf:resource="urn:b"/></rdf:Description>' * 30_000
    )
    assert every_spelled(load_graph(write(tmp_path / "wide.rdf", f"{wide}</rdf:RDF>"))) == set(TRIPLES)
