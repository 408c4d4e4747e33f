"""Benchmarks are found, or downloaded whole, or not at all. The server is a real one, on this machine's loopback."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from transher.errors import InputError, UsageError
from transher.graph.benchmarks import cache_folder, fetch, list_benchmarks, locate, open_benchmark
from transher.graph.catalogue import BENCHMARKS, Benchmark, Source, find_benchmark
from transher.graph.download import DownloadError, text_sha256

SPLIT_TEXTS = {"train.txt": b"a\tr\tb\nb\tr\tc\n", "valid.txt": b"a\tr\tc\n", "test.txt": b"c\tr\ta\n"}
REAL_DATA = os.environ.get("TRANSHER_DATA")


class Server(ThreadingHTTPServer):
    """Serves `pages`; a page in `broken` stops half way, one in `stuck` waits there until it may go on."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, bytes] = {}
        self.broken: set[str] = set()
        self.stuck: set[str] = set()
        self.half_sent = threading.Event()
        self.go_on = threading.Event()

    def address(self, page: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{page}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        page = self.path.lstrip("/")
        if page not in self.server.pages:
            self.send_error(404)
            return
        content = self.server.pages[page]
        half = len(content) // 2
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:half])
        if page in self.server.broken:
            return
        if page in self.server.stuck:
            self.wfile.flush()
            self.server.half_sent.set()
            self.server.go_on.wait(300)
            return
        self.wfile.write(content[half:])

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        running.pages.update(SPLIT_TEXTS)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield running
        running.go_on.set()
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TRANSHER_DATA", raising=False)
    for proxy in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    return tmp_path / "cache" / "transher"


def made_benchmark(*sources: Source, largest: int = 1 << 20) -> Benchmark:
    return Benchmark(
        name="tiny-1",
        title="A test",
        entities=3,
        relations=1,
        train=2,
        valid=1,
        test=1,
        home="https://example.org/tiny",
        licence="none",
        sources=sources,
        largest=largest,
    )


def texts_of(server: Server) -> Benchmark:
    return made_benchmark(
        *(Source(server.address(n), n, sha256=hashlib.sha256(text).hexdigest()) for n, text in SPLIT_TEXTS.items())
    )


def archive_of(server: Server, page: str, content: bytes, *, inside: str = "", largest: int = 1 << 20) -> Benchmark:
    server.pages[page] = content
    return made_benchmark(Source(server.address(page), inside=inside), largest=largest)


def zip_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


def tar_of(files: dict[str, bytes], link: str | None = None) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if link is not None:
            info = tarfile.TarInfo("link.txt")
            info.type, info.linkname = tarfile.SYMTYPE, link
            archive.addfile(info)
    return packed.getvalue()


def left_in(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*")) if folder.exists() else []


def test_a_download_is_placed_and_then_found(server: Server, cache: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    folder = fetch(texts_of(server), lambda *report: seen.append(report))
    assert folder == cache / "tiny-1"
    assert {name: (folder / name).read_bytes() for name in SPLIT_TEXTS} == SPLIT_TEXTS
    assert seen[0] == ("train.txt", 12, 12)
    server.pages.clear()
    assert fetch(texts_of(server)) == folder == locate(texts_of(server))


def test_the_hashes_of_what_came_are_written_down(server: Server) -> None:
    sums = (fetch(texts_of(server)) / "SHA256SUMS").read_text()
    assert f"{hashlib.sha256(SPLIT_TEXTS['train.txt']).hexdigest()}  train.txt\n" in sums


def test_windows_line_ends_do_not_count_as_another_file(server: Server) -> None:
    benchmark = texts_of(server)
    server.pages["train.txt"] = SPLIT_TEXTS["train.txt"].replace(b"\n", b"\r\n")
    assert fetch(benchmark).is_dir()


def test_a_missing_page_leaves_nothing_and_says_what_to_do(server: Server, cache: Path) -> None:
    benchmark = texts_of(server)
    del server.pages["test.txt"]
    with pytest.raises(DownloadError) as caught:
        fetch(benchmark)
    for part in ("tiny-1", server.address("test.txt"), "404", "https://example.org/tiny", "$TRANSHER_DATA/tiny-1"):
        assert part in str(caught.value)
    assert left_in(cache) == []


def test_a_body_that_breaks_off_leaves_nothing(server: Server, cache: Path) -> None:
    server.broken.add("valid.txt")
    with pytest.raises(DownloadError, match=r"valid\.txt broke off after 3 of 6 bytes"):
        fetch(texts_of(server))
    assert left_in(cache) == []


def test_another_content_leaves_nothing(server: Server, cache: Path) -> None:
    benchmark = texts_of(server)
    server.pages["train.txt"] = b"something else\n"
    with pytest.raises(DownloadError, match="SHA-256"):
        fetch(benchmark)
    assert left_in(cache) == []


def test_offline_is_said_with_the_address(server: Server, cache: Path) -> None:
    benchmark = made_benchmark(Source("http://127.0.0.1:9/train.txt", "train.txt"))
    with pytest.raises(DownloadError, match=r"http://127\.0\.0\.1:9/train\.txt cannot be reached"):
        fetch(benchmark)
    assert left_in(cache) == []


def test_a_killed_download_is_not_taken_for_a_dataset_and_is_swept_away_later(server: Server, cache: Path) -> None:
    server.stuck.add("valid.txt")
    benchmark = texts_of(server)
    code = (
        "from transher.graph.benchmarks import fetch\n"
        "from transher.graph.catalogue import Benchmark, Source\n"
        f"fetch({benchmark!r})\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert server.half_sent.wait(300)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert locate(benchmark) is None
    (left_over,) = cache.iterdir()
    assert left_over.name.startswith(".tiny-1.")

    server.go_on.set()
    server.stuck.clear()
    long_ago = time.time() - 200_000
    for path in (*left_over.iterdir(), left_over):
        os.utime(path, (long_ago, long_ago))
    assert fetch(benchmark) == cache / "tiny-1"
    assert [path.name for path in cache.iterdir()] == ["tiny-1"]


def test_two_downloads_at_once_agree(server: Server, cache: Path) -> None:
    benchmark = texts_of(server)
    with ThreadPoolExecutor(4) as pool:
        folders = set(pool.map(lambda _: fetch(benchmark), range(4)))
    assert folders == {cache / "tiny-1"}
    assert [path.name for path in cache.iterdir()] == ["tiny-1"]


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_archives_are_unpacked(server: Server, pack: object) -> None:
    assert callable(pack)
    packed = pack({f"top/{name}": text for name, text in SPLIT_TEXTS.items()} | {"other/readme": b"?"})
    folder = fetch(archive_of(server, "tiny.archive", packed, inside="top"))
    assert left_in(folder) == ["SHA256SUMS", "test.txt", "train.txt", "valid.txt"]
    assert (folder / "train.txt").read_bytes() == SPLIT_TEXTS["train.txt"]


@pytest.mark.parametrize(
    "packed",
    [
        zip_of({**SPLIT_TEXTS, "../../outside.txt": b"!"}),
        zip_of({**SPLIT_TEXTS, "/outside.txt": b"!"}),
        tar_of({**SPLIT_TEXTS, "a/../../outside.txt": b"!"}),
        tar_of(SPLIT_TEXTS, link="/etc/passwd"),
    ],
    ids=["parent", "absolute", "tar parent", "link"],
)
def test_an_archive_cannot_write_outside_of_its_folder(
    server: Server, cache: Path, tmp_path: Path, packed: bytes
) -> None:
    with pytest.raises(DownloadError, match="it was not kept"):
        fetch(archive_of(server, "tiny.archive", packed))
    assert left_in(cache) == []
    assert not list(tmp_path.rglob("outside.txt"))


def test_an_archive_that_unpacks_to_too_much_is_refused(server: Server, cache: Path) -> None:
    packed = zip_of({**SPLIT_TEXTS, "zeros": bytes(3 << 20)})
    with pytest.raises(DownloadError, match="unpacks to more"):
        fetch(archive_of(server, "tiny.zip", packed))
    assert left_in(cache) == []


def test_a_damaged_or_foreign_archive_is_refused(server: Server, cache: Path) -> None:
    for packed in (zip_of(SPLIT_TEXTS)[:-30], tar_of(SPLIT_TEXTS)[:-30], b"<html>Sorry</html>", gzip.compress(b"x")):
        with pytest.raises(DownloadError, match="is damaged"):
            fetch(archive_of(server, "tiny.archive", packed))
    with pytest.raises(DownloadError, match="does not hold the graph"):
        fetch(archive_of(server, "tiny.archive", zip_of({"readme": b"?"})))
    assert left_in(cache) == []


@pytest.mark.parametrize("folder_name", ["FB15k-237", "fb15k-237", "FB15K237", "fb15k_237"])
def test_the_folder_that_the_variable_names_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder_name: str
) -> None:
    here = tmp_path / "data" / folder_name
    for folder in (here, cache_folder() / "fb15k-237"):
        folder.mkdir(parents=True)
        for name, text in SPLIT_TEXTS.items():
            (folder / name).write_bytes(text)
    assert locate("fb15k-237") == cache_folder() / "fb15k-237"
    monkeypatch.setenv("TRANSHER_DATA", str(tmp_path / "data"))
    assert locate("FB15k-237") == here
    (here / "valid.txt").unlink()
    assert locate("fb15k-237") == cache_folder() / "fb15k-237"


@pytest.mark.parametrize("name", ["fb15k-237", "db100k"])
def test_the_known_hashes_are_those_of_the_real_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHER_DATA", REAL_DATA or "")
    folder = locate(name)
    if folder is None:
        pytest.skip(f"{name} is not here")
    known = {source.file: source.sha256 for source in BENCHMARKS[name].sources if source.sha256}
    assert known
    assert {file: text_sha256(folder / file) for file in known} == known


def test_a_disk_that_cannot_be_written_is_said(server: Server, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the cache should be")
    with pytest.raises(DownloadError, match=r"tiny-1 could not be downloaded: .*File exists"):
        fetch(texts_of(server))


def test_a_variable_that_names_no_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHER_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="TRANSHER_DATA"):
        locate("wn18rr")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UsageError, match="'fb15k-237'"):
        find_benchmark("fb15k-273")


def test_the_list_says_where_each_is() -> None:
    where = {line.benchmark.name: line.where for line in list_benchmarks()}
    assert list(where) == list(BENCHMARKS)
    assert where.pop("world") == "inside the package"
    assert set(where.values()) == {"not here"}


def test_world_opens_from_the_package() -> None:
    pytest.importorskip("transher.graph.readers")
    graph, told = open_benchmark("world"), BENCHMARKS["world"]
    sizes = (len(graph.entities), len(graph.relations), len(graph.train), len(graph.valid), len(graph.test))
    assert sizes == (told.entities, told.relations, told.train, told.valid, told.test)
    assert graph.entities.names is not None
    assert "France" in graph.entities.names.to_pylist()
