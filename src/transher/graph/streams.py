"""The bytes of a file as readers want them: unpacked, in UTF-8, and never more of them in memory than a line needs."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from transher.errors import InputError
from transher.graph.options import ENDINGS, RDF_ENDINGS, ReadingOptions, option

LONGEST_LINE = 1 << 20  # bytes: a longer one is no triple, and a packed file may hold gigabytes without a line end
PACKINGS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
_CHUNK = 1 << 18
_XML_ENDINGS = (".rdf", ".owl")
_ONE_STATEMENT_A_LINE = (".nt", ".nq")
# A short text without references in it: a longer or nested one could unpack to gigabytes.
_ENTITY = re.compile(rb"<!ENTITY\s+[\w.-]+\s+(\"[^\"&%]{0,256}\"|'[^'&%]{0,256}')\s*>")
_DEEPEST = 5_000
_DECLARATION = b"<!ENTITY"
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Source:
    """A file on this machine, and how its bytes are to be understood."""

    path: Path
    form: str  # an ending, `.tsv`, whatever the file is called
    packing: str = ""  # "gzip", "bz2", "zstd", or nothing
    encoding: str = "utf-8"

    @property
    def stem(self) -> str:
        return self.path.name.split(".")[0]

    def open(self) -> ByteStream:
        """Its bytes, unpacked and in UTF-8. A line that is too long ends the reading with an InputError."""
        return ByteStream(self)


def ending(path: Path) -> str:
    """What kind of file it is by its name: `.tsv` for `a.tsv`, `a.tsv.gz` and `A.TSV.GZ`."""
    return (Path(path.stem) if path.suffix.lower() in PACKINGS else path).suffix.lower()


def source_of(path: Path, options: ReadingOptions | None = None) -> Source:
    """The file at `path`, of the form that the options or its ending say."""
    options = options or ReadingOptions()
    if path.is_dir():
        raise InputError("is a folder where a file is needed.", file=path, remedy="Give the file inside it.")
    if not path.exists():
        raise InputError("there is no such file.", file=path, remedy="Check the path.")
    form = options.form or ending(path)
    if form not in ENDINGS:
        raise InputError(
            "its name does not say what kind of file it is.",
            file=path,
            remedy=f"Name the format with {option('format', 'tsv')}. Known endings are {' '.join(ENDINGS)}, "
            f"all but .parquet also with {' '.join(PACKINGS)}.",
        )
    return Source(path, form, PACKINGS.get(path.suffix.lower(), ""), options.encoding)


def packing_of(start: bytes) -> str:
    """The ending of the packing whose files start like `start`, or nothing."""
    found = next((packing for magic, packing in _MAGIC.items() if start.startswith(magic)), "")
    return next((suffix for suffix, packing in PACKINGS.items() if packing == found), "")


class ByteStream(io.BufferedReader):
    """The bytes of a source."""

    def __init__(self, source: Source) -> None:
        self._bytes = _Bytes(source)
        super().__init__(self._bytes, _CHUNK)

    @property
    def quotes(self) -> int:
        """How many quotes were read so far."""
        return self._bytes.quotes


class _Bytes(io.RawIOBase):
    """A file's bytes, unpacked, transcoded and checked piece by piece."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._file: BinaryIO = source.path.open("rb")
        if source.packing:
            self._file = pa.CompressedInputStream(self._file, source.packing)
        self._decoder = None
        if codecs.lookup(source.encoding).name != "utf-8":
            self._decoder = codecs.getincrementaldecoder(source.encoding)()
        self._left = b""  # of a piece that was larger than what was asked for
        self.quotes = 0
        self._checks = _checks_of(source)
        self._size = LONGEST_LINE if source.form in _XML_ENDINGS else _CHUNK

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self._left or self._next()
        given = piece[: len(buffer)]
        self._left = piece[len(given) :]
        buffer[: len(given)] = given
        return len(given)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _next(self) -> bytes:
        """The next piece, empty at the end."""
        while True:
            packed_or_not = self._read()
            piece = packed_or_not if self._decoder is None else self._transcoded(packed_or_not)
            for check in self._checks:
                check(piece)
            self.quotes += piece.count(b'"')
            if piece or not packed_or_not:
                return piece

    def _read(self) -> bytes:
        """As many bytes as a piece has, fewer only at the end."""
        pieces, wanted = [], self._size
        try:
            while wanted and (piece := self._file.read(wanted)):
                pieces.append(piece)
                wanted -= len(piece)
        except (OSError, pa.ArrowException) as error:
            packing = self._source.packing
            what = f"is not a whole {packing} file" if packing else "cannot be read"
            raise InputError(
                f"{what}: {error}.", file=self._source.path, remedy="Make or fetch it again; was it cut short?"
            ) from error
        return b"".join(pieces)

    def _transcoded(self, piece: bytes) -> bytes:
        assert self._decoder is not None
        try:
            return self._decoder.decode(piece, final=not piece).encode("utf-8")
        except ValueError as error:
            raise InputError(
                f"cannot be decoded as {self._source.encoding}: {error}.",
                file=self._source.path,
                remedy=f"Name its encoding with {option('encoding')}.",
            ) from error


def _checks_of(source: Source) -> list[Callable[[bytes], None]]:
    if source.form in _XML_ENDINGS:
        return [_Entities(source).check, _Nesting(source).check, _Gaps(source, b"<>", "text or tag").check]
    if source.form in RDF_ENDINGS and source.form not in _ONE_STATEMENT_A_LINE:
        return []  # its parser bounds what it keeps, and a whole Turtle file may stand in one line
    return [_Gaps(source, b"\n\r", "line").check]


class _Gaps:
    """Refuses a file in which two `ends` are further apart than a line may be long."""

    def __init__(self, source: Source, ends: bytes, what: str) -> None:
        self._source = source
        self._ends = ends
        self._what = what
        self._length = 0  # bytes since the last end
        self._line = 1

    def check(self, piece: bytes) -> None:
        """Pieces are no longer than a line may be, so only a line that reaches into a piece can be too long."""
        firsts = [place for place in (piece.find(end) for end in (self._ends[:1], self._ends[1:])) if place >= 0]
        if self._length + (min(firsts) if firsts else len(piece)) > LONGEST_LINE:
            raise InputError(
                f"a {self._what} is longer than {LONGEST_LINE:,} bytes.",
                file=self._source.path,
                line=self._line,
                remedy=f"Is it a {self._source.form.removeprefix('.')} file? "
                f"If not, name its format with {option('format')}.",
            )
        if firsts:
            last = max(piece.rfind(self._ends[:1]), piece.rfind(self._ends[1:]))
            self._length = len(piece) - last - 1
        else:
            self._length += len(piece)
        self._line += piece.count(b"\n")


class _Entities:
    """Refuses XML entities that are defined by each other, or long: a kilobyte of them can stand for gigabytes. They
    have to stand in the file's first mebibyte, which is looked at as a whole before the parser sees any of it."""

    def __init__(self, source: Source) -> None:
        self._path = source.path
        self._tail = b""
        self._is_start = True

    def check(self, piece: bytes) -> None:
        together = self._tail + piece
        simple = len(_ENTITY.findall(piece)) if self._is_start else 0
        if together.count(_DECLARATION) != simple:
            raise InputError(
                "declares XML entities that are long or refer to others.",
                file=self._path,
                remedy="Write the file without such an <!ENTITY>, or as N-Triples.",
            )
        self._tail, self._is_start = piece[1 - len(_DECLARATION) :], False


class _Nesting:
    """Refuses XML that is nested very deeply: the parser's time grows with the square of the depth."""

    def __init__(self, source: Source) -> None:
        self._path = source.path
        self._last = b""
        self._depth = 0

    def check(self, piece: bytes) -> None:
        together = self._last + piece  # for what stands across two pieces
        ends, declarations = together.count(b"</"), together.count(b"<?") + together.count(b"<!")
        opened = piece.count(b"<") - ends - declarations
        self._depth = max(self._depth + opened - ends - together.count(b"/>"), 0)
        self._last = piece[-1:]
        if self._depth > _DEEPEST:
            raise InputError(
                f"has XML elements nested more than {_DEEPEST:,} deep.",
                file=self._path,
                remedy="Write it as N-Triples.",
            )


OnBadRow = Callable[[int, str], None]  # takes the line and what is wrong with it


def text_lines(source: Source, on_bad: OnBadRow | None = None) -> Iterator[tuple[int, str]]:
    """The number and text of each line, without its end. A line that is not UTF-8 is an error that says which, or is
    passed over where `on_bad` takes note of it."""
    with source.open() as file:
        for number, line in enumerate(_split(file), 1):
            try:
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                what = f"byte {error.start + 1} is not UTF-8."
                if on_bad is None:
                    guess = "utf-16" if line.startswith(_UTF_16_MARKS) else "latin-1"
                    remedy = f"Save the file as UTF-8. Or name its encoding: {option('encoding', guess)}."
                    raise InputError(what, file=source.path, line=number, remedy=remedy) from error
                on_bad(number, what)


def _split(file: BinaryIO) -> Iterator[bytes]:
    """Lines that end in LF, CR or both, as Arrow's reader of tables ends them."""
    rest = b""
    while chunk := file.read(_CHUNK):
        *whole, rest = (rest + chunk).splitlines(keepends=True)
        yield from whole
    if rest:
        yield from rest.splitlines(keepends=True)
