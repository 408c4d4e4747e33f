"""Files and archives from a public home: bounded, checked, and never half there."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, IncompleteRead
from pathlib import Path, PurePosixPath
from typing import IO

from transher.errors import TransherError
from transher.files import AlreadyThere, whole_folder

DownloadProgress = Callable[
    [str, int, int | None], None
]  # what is coming, bytes so far, bytes in all if the server says
TIMEOUT_SECONDS = 30.0
_CHUNK = 1 << 18


class DownloadError(TransherError):
    """Something could not be had, or is not what it should be."""


def download(url: str, path: Path, *, largest: int, progress: DownloadProgress | None = None) -> None:
    """Write what `url` gives to `path`, or raise a DownloadError that names the URL. At most `largest` bytes."""
    request = urllib.request.Request(url, headers={"User-Agent": "transher"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response, path.open("wb") as file:
            length = response.headers.get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            done = 0
            while chunk := response.read(_CHUNK):
                done += len(chunk)
                if done > largest:
                    raise DownloadError(f"{url} is larger than the {largest:,} bytes that it should be at most.")
                file.write(chunk)
                if progress is not None:
                    progress(path.name, done, total)
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{url} answers {error.code} {error.reason}.") from error
    except IncompleteRead as error:
        raise DownloadError(f"{url} broke off after {done + len(error.partial):,} of {total:,} bytes.") from error
    except (urllib.error.URLError, TimeoutError, HTTPException, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise DownloadError(f"{url} cannot be reached: {reason}.") from error
    if total is not None and done != total:
        raise DownloadError(f"{url} broke off after {done:,} of {total:,} bytes.")


def text_sha256(path: Path) -> str:
    """The hash of a text with its line ends as LF: public copies of one benchmark differ in nothing else."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for line in file:
            digest.update(line[:-2] + b"\n" if line.endswith(b"\r\n") else line)
    return digest.hexdigest()


def unpack(archive: Path, folder: Path, *, inside: str = "", largest: int) -> None:
    """Unpack the folder `inside` of a zip or tar.gz into `folder`. Nothing is ever written outside of `folder`, links
    are refused, and the content may be `largest` bytes in all, whatever the archive says about itself."""
    left = largest
    try:
        for name, content in _members(archive):
            place = _safe_place(archive, name)
            if not place.is_relative_to(inside or "."):
                continue
            target = folder / place.relative_to(inside or ".")
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                while chunk := content.read(_CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        raise DownloadError(f"{archive.name} unpacks to more than {largest:,} bytes; it was not kept.")
                    file.write(chunk)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        raise DownloadError(f"{archive.name} is damaged: {error}.") from error


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """The name and content of each file in an archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    with packed.open(info) as content:
                        yield info.filename, content
        return
    with tarfile.open(archive) as packed_tar:
        for member in packed_tar:
            content_or_none = packed_tar.extractfile(member) if member.isfile() else None
            if content_or_none is not None:
                yield member.name, content_or_none
            elif not member.isdir():
                raise DownloadError(f"{archive.name} holds {member.name!r}, which is no plain file; it was not kept.")


def _safe_place(archive: Path, name: str) -> PurePosixPath:
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts or "\\" in name or ":" in name:
        raise DownloadError(f"{archive.name} would write to {name!r}, outside of its folder; it was not kept.")
    return place


@contextmanager
def placing(folder: Path) -> Iterator[Path]:
    """A folder to fill that appears at `folder` once the block ends well. Several processes may download the same: the
    folder of the first one stays. What a killed one leaves is removed by `sweep`."""
    with suppress(AlreadyThere), whole_folder(folder) as filling:
        yield filling


def sweep(folder: Path, *, older_than: float) -> None:
    """Remove what killed downloads of `folder` left beside it, if nothing was written there since `older_than`."""
    for left_over in folder.parent.glob(f".{folder.name}.*.part"):
        newest = max((file.stat().st_mtime for file in (left_over, *left_over.iterdir())), default=0.0)
        if newest < older_than:
            shutil.rmtree(left_over, ignore_errors=True)
