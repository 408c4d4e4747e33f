"""Graphs from elsewhere: a web server, a store of objects, a file system of fsspec, standard input."""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pyoxigraph
import pytest
from tests.graph.spelling import every_spelled, lines, write

from transher.errors import InputError, TransherError, UsageError
from transher.graph import load_graph

TRIPLES = [("a", "r", "b"), ("b", "r", "c"), ("c", "s", "a")]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server on this machine that has what is in the test's folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The address of a SPARQL endpoint on this machine that knows the triples."""
    store = pyoxigraph.Store()
    nodes = [tuple(pyoxigraph.NamedNode(f"urn:{word}") for word in triple) for triple in TRIPLES]
    store.extend(pyoxigraph.Quad(*triple) for triple in nodes)

    class Endpoint(Quiet):
        def do_GET(self) -> None:
            found = store.query(parse_qs(urlsplit(self.path).query)["query"][0])
            if isinstance(found, pyoxigraph.QueryTriples):
                answer = found.serialize(format=pyoxigraph.RdfFormat.N_TRIPLES)
            else:
                answer = found.serialize(format=pyoxigraph.QueryResultsFormat.CSV)
            assert answer is not None
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}/sparql"
        serving.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def no_copies_are_left(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def write_parquet(path: Path) -> None:
    pa.parquet.write_table(pa.table(dict(zip("hrt", zip(*TRIPLES, strict=True), strict=True))), path)


def test_a_file_is_read_from_a_web_server(server: str, tmp_path: Path) -> None:
    write(tmp_path / "some graph.tsv.gz", lines(TRIPLES))
    write_parquet(tmp_path / "a.parquet")
    graph = load_graph(f"http://{server}/some%20graph.tsv.gz?download=1")
    assert every_spelled(graph) == set(TRIPLES)
    assert graph.name == "some graph"
    assert every_spelled(load_graph(f"http://{server}/a.parquet")) == set(TRIPLES)
    assert every_spelled(load_graph(f"http://{server}/a.parquet", entity_names={"a": "A"})) == set(TRIPLES)


def test_names_are_read_from_a_web_server(server: str, tmp_path: Path) -> None:
    write(tmp_path / "names.tsv", "a\tAnna\n")
    assert load_graph(TRIPLES, entity_names=f"http://{server}/names.tsv").entities.label(0) == "Anna"


def test_faults_of_a_file_from_elsewhere_name_its_address(
    server: str, memory: fsspec.AbstractFileSystem, tmp_path: Path
) -> None:
    write(tmp_path / "a.tsv", "a\tr\tb\nc\n")
    with pytest.raises(InputError, match=f"^http://{server}/a.tsv, line 2: 1 column where"):
        load_graph(f"http://{server}/a.tsv")
    memory.pipe("/folder/train.tsv", b"a\tr\n")
    with pytest.raises(InputError, match=r"^memory://folder/train.tsv, line 1: there are 2 columns"):
        load_graph("memory://folder")


def test_what_is_nowhere_is_said_to_be(server: str, memory: fsspec.AbstractFileSystem) -> None:
    with pytest.raises(TransherError, match=r"nothing.tsv answers 404"):
        load_graph(f"http://{server}/nothing.tsv")
    with pytest.raises(InputError, match=r"^memory://nothing.tsv: there is no such file or folder"):
        load_graph("memory://nothing.tsv")
    with pytest.raises(TransherError, match="cannot be reached"):
        load_graph("http://127.0.0.1:1/a.tsv")


def test_files_and_folders_are_read_through_fsspec(memory: fsspec.AbstractFileSystem) -> None:
    memory.pipe("/g/part-0.tsv.gz", gzip.compress(lines(TRIPLES[:2]).encode()))
    memory.pipe("/g/part-1.tsv", lines(TRIPLES[2:]).encode())
    assert every_spelled(load_graph("memory://g/part-0.tsv.gz")) == set(TRIPLES[:2])
    graph = load_graph("memory://g")
    assert every_spelled(graph) == set(TRIPLES)
    assert graph.name == "g"


def test_a_package_that_is_missing_and_a_scheme_that_is_unknown_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"nowhere://.*Protocol not known"):
        load_graph("nowhere://a/b.tsv")
    monkeypatch.setitem(sys.modules, "paramiko", None)
    with pytest.raises(UsageError, match=r"needs a package that is not installed: .*paramiko"):
        load_graph("sftp://host/b.tsv")


def test_a_file_is_read_from_an_object_store(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain web server answers the two requests that Arrow's client of S3 makes for one object."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    write(tmp_path / "bucket" / "a.tsv.gz", lines(TRIPLES))
    where = f"?endpoint_override={server}&scheme=http&region=us-east-1"
    assert every_spelled(load_graph(f"s3://key:secret@bucket/a.tsv.gz{where}")) == set(TRIPLES)


@pytest.mark.parametrize(
    ("query", "form"),
    [
        ("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "nt"),
        ("SELECT ?head ?relation ?tail WHERE { ?head ?relation ?tail }", "csv"),
    ],
)
def test_what_a_sparql_endpoint_answers_is_a_graph(endpoint: str, query: str, form: str) -> None:
    graph = load_graph(f"{endpoint}?query={quote(query)}", format=form)
    assert every_spelled(graph) == {tuple(f"urn:{word}" for word in triple) for triple in TRIPLES}
    assert graph.name == "sparql"


def run(arguments: list[str], given: bytes) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "transher", "stats", "-", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("packing", [bytes, gzip.compress])
def test_standard_input_is_a_graph(packing: Callable[[bytes], bytes]) -> None:
    done = run(["--format", "csv"], packing(lines(TRIPLES, ",").encode()))
    assert done.returncode == 0, done.stderr
    assert "3 entities, 2 relations" in done.stdout


def test_standard_input_needs_a_format_and_has_errors_of_its_own() -> None:
    done = run([], b"a\tr\tb\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--format tsv" in done.stderr
    done = run(["--format", "tsv"], b"a\tr\tb\nc\n")
    assert done.returncode == 1
    assert done.stderr.strip().startswith("Error: standard input, line 2: 1 column")
