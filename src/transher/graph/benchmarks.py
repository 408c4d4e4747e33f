"""Graphs that have a name: where they are on this machine, and how to get them."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transher.errors import InputError
from transher.files import sha256, write_text
from transher.graph.catalogue import BENCHMARKS, Benchmark, Source, find_benchmark
from transher.graph.download import DownloadError, DownloadProgress, download, placing, sweep, text_sha256, unpack
from transher.graph.graph import Graph

DATA_VARIABLE = "TRANSHER_DATA"
_WORLD = Path(__file__).with_name("world")
_A_DAY = 86_400.0
_SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Listing:
    """A line of `transher datasets`."""

    benchmark: Benchmark
    path: Path | None

    @property
    def where(self) -> str:
        if self.path is None:
            return "not here"
        return "inside the package" if self.path == _WORLD else str(self.path)

    def to_dict(self) -> dict[str, Any]:
        names = ("name", "title", "entities", "relations", "train", "valid", "test", "home", "licence")
        return {name: getattr(self.benchmark, name) for name in names} | {"where": self.where}


def locate(benchmark: str | Benchmark) -> Path | None:
    """The folder of a benchmark that is here: in the folder that TRANSHER_DATA names, then in the user's cache."""
    known = find_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
    if known.name == "world":
        return _WORLD
    for root in _roots():
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            if known.is_called(folder.name) and known.is_in(folder):
                return folder
    return None


def fetch(benchmark: str | Benchmark, progress: DownloadProgress | None = None) -> Path:
    """The folder of a benchmark, downloaded into the user's cache if it is nowhere yet. The folder appears at once,
    when everything in it has come and been checked."""
    known = find_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
    if found := locate(known):
        return found
    folder = cache_folder() / known.name
    sweep(folder, older_than=time.time() - _A_DAY)
    try:
        with placing(folder) as filling:
            sums = [f"{_get(source, filling, known.largest, progress)}\n" for source in known.sources]
            write_text(filling / _SUMS, "".join(sums))
            if not known.is_in(filling):
                raise DownloadError(f"{known.sources[0].url} does not hold the graph {known.name}.")
    except (DownloadError, OSError) as error:
        wanted = "the unpacked archive" if known.is_ogb else "train.txt, valid.txt and test.txt"
        raise DownloadError(
            f"{known.name} could not be downloaded: {str(error).rstrip('.')}. Try again later, or get it "
            f"from {known.home} and put {wanted} into the folder ${DATA_VARIABLE}/{known.name}."
        ) from error
    return folder


def open_benchmark(name: str, progress: DownloadProgress | None = None) -> Graph:
    """A benchmark's graph, downloaded first if it is nowhere yet."""
    benchmark = find_benchmark(name)
    folder = fetch(benchmark, progress)
    if benchmark.is_ogb:
        from transher.graph.ogb import read_ogb

        return read_ogb(folder, name=benchmark.name)
    from transher.graph.readers import read_graph

    return replace(read_graph(folder), name=benchmark.name)


def list_benchmarks() -> list[Listing]:
    """Every benchmark, and where it is if it is here."""
    return [Listing(benchmark, locate(benchmark)) for benchmark in BENCHMARKS.values()]


def cache_folder() -> Path:
    """Where downloads are kept: the place that the system has for such things."""
    if root := os.environ.get("XDG_CACHE_HOME"):
        return Path(root) / "transher"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "transher" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "transher"
    return Path.home() / ".cache" / "transher"


def _roots() -> list[Path]:
    roots = [cache_folder()]
    if named := os.environ.get(DATA_VARIABLE):
        if not Path(named).is_dir():
            raise InputError(
                f"is not a folder, but the environment variable {DATA_VARIABLE} names it.",
                file=named,
                remedy=f"Point {DATA_VARIABLE} at the folder that holds the benchmarks' folders, or unset it.",
            )
        roots.insert(0, Path(named))
    return roots


def _get(source: Source, folder: Path, largest: int, progress: DownloadProgress | None) -> str:
    """Download, check and place one source. Returns its line for SHA256SUMS."""
    path = folder / (source.file or source.url.rpartition("/")[2])
    download(source.url, path, largest=largest, progress=progress)
    found = text_sha256(path) if source.file else sha256(path)
    if source.sha256 not in (None, found):
        raise DownloadError(f"{source.url} is not the known file: its SHA-256 is {found}, not {source.sha256}.")
    if not source.file:
        unpack(path, folder, inside=source.inside, largest=largest)
        path.unlink()
    return f"{found}  {path.name}"
