"""Graphs that are not in a file here: standard input, and addresses such as https://… and s3://…

They are copied to a temporary folder on the disk first, since Parquet is read from its end, and a file with a fault is
read twice. Messages speak of the address, not of the copy."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from transher.errors import InputError, UsageError
from transher.graph.download import DownloadProgress, download
from transher.graph.options import FORMATS, ReadingOptions, option
from transher.graph.streams import packing_of

STANDARD_INPUT = "-"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_OF_ARROW = ("s3", "gs", "gcs", "hdfs", "abfs", "abfss")  # Arrow has them built in; fsspec has more, by plug-ins


def is_address(source: object) -> bool:
    """Whether it names standard input or something on another machine, not a file here."""
    return isinstance(source, str) and (source == STANDARD_INPUT or _ADDRESS.match(source) is not None)


@contextmanager
def local_copy(address: str, options: ReadingOptions, progress: DownloadProgress | None = None) -> Iterator[Path]:
    """A file or folder that holds what is at `address`, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="transher-") as folder:
        shown = "standard input" if address == STANDARD_INPUT else address
        try:
            if address == STANDARD_INPUT:
                copy = _from_standard_input(Path(folder), options)
            else:
                copy = _from_address(address, Path(folder), progress)
            yield copy
        except InputError as error:
            raise InputError(str(error).replace(str(Path(folder) / _name_of(address)), shown)) from error


def _name_of(address: str) -> str:
    """What the copy is called: the last part of the address, whose ending says what kind of file it is."""
    if address == STANDARD_INPUT:
        return "stdin"
    name = PurePosixPath(unquote(urlsplit(address).path)).name
    return name.replace("\0", "") or urlsplit(address).netloc or "graph"


def _from_standard_input(folder: Path, options: ReadingOptions) -> Path:
    if options.form is None:
        raise UsageError(
            f"Say what kind of file standard input is, with {option('format', 'tsv')}. Known: {', '.join(FORMATS)}."
        )
    stream = sys.stdin.buffer
    path = folder / "stdin"
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file)
    with path.open("rb") as file:
        packing = packing_of(file.read(4))
    return path.rename(path.with_suffix(packing)) if packing else path


def _from_address(address: str, folder: Path, progress: DownloadProgress | None) -> Path:
    copy = folder / _name_of(address)
    if urlsplit(address).scheme.lower() in ("http", "https"):
        download(address, copy, largest=shutil.disk_usage(folder).free, progress=progress)
        return copy
    try:
        system, path = _file_system(address)
        found = system.get_file_info(path)
        if found.type == fs.FileType.NotFound:
            raise InputError("there is no such file or folder.", file=copy, remedy="Check the address.")
        if found.is_file:
            _copy(system, path, copy)
            return copy
        copy.mkdir()
        for entry in system.get_file_info(fs.FileSelector(path)):
            if entry.is_file:
                _copy(system, entry.path, copy / entry.base_name)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise InputError(f"cannot be read: {error}.", file=copy, remedy="Check the address and your access.") from error
    return copy


def _file_system(address: str) -> tuple[fs.FileSystem, str]:
    """The file system of an address, and the path in it: Arrow's own, or one of fsspec."""
    scheme = urlsplit(address).scheme.lower()
    if scheme in _OF_ARROW:
        try:
            system, path = fs.FileSystem.from_uri(address)
        except pa.ArrowNotImplementedError:  # Arrow was built without it
            pass
        else:
            return system, path
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise UsageError(f"{address} needs a package that is not installed: {error}.") from error
    except ValueError as error:
        raise UsageError(f"{address}: {error}. Known are https, s3, gs, hdfs, abfs and what fsspec knows.") from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


def _copy(system: fs.FileSystem, path: str, copy: Path) -> None:
    # By default Arrow would unpack what ends in .gz, under the packed file's name.
    with system.open_input_stream(path, compression=None) as remote, copy.open("wb") as file:
        shutil.copyfileobj(remote, file, 1 << 20)
