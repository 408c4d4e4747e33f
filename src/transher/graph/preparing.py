"""Graphs of any size into a folder of id-encoded parts, out of core: DuckDB sorts and joins on disk.

Ids are given in the order of a hash of the identifier, so that ranges of ids are balanced and the same lines in any
order give the same folder. Every step leaves a table, and a step that was stopped is done again: one blocking operation
in each, since several at once run out of memory together.

    prepared.json                        sizes; written last
    entities/part-0000.parquet …         identifiers in the order of ids;   relations.parquet
    by_head/part-0000.parquet …          training triples whose head is in the part's range, by head, relation, tail
    by_tail/part-0000.parquet …          the same by tail, relation, head
    valid.parquet, test.parquet
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transher.errors import InputError, UsageError
from transher.files import write_json, writing
from transher.graph.columns import choose_columns, names_columns
from transher.graph.graph import SPLITS
from transher.graph.options import ReadingOptions
from transher.graph.prepared import PREPARED_FILE, Prepared, bounds, part_file
from transher.graph.sources import is_names, split_named
from transher.graph.streams import PACKINGS, ending, source_of

if TYPE_CHECKING:
    import duckdb

Progress = Callable[[int, int], None]
_WORK = ".work"  # until the folder is whole
_CHUNK = 1 << 20  # bytes that are looked at at a time
_PART = 4_000_000  # triples that are sorted at a time
_LIMIT = 0.8  # of the memory that is given is DuckDB's; the rest is Python's, and what DuckDB takes beyond its limit
_LITTLE = 2.0  # GB: below, one thread, since each has buffers of its own
_ENDINGS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv", ".parquet": "parquet", ".nt": "nt"}
_UNPACKED = (".gz", ".zst")  # by DuckDB
_HEADS = "select head as word from spelled"
_TERM = r"(?:<([^>]*)>|(_:\S+))"  # an IRI or a blank node
_TRIPLE = rf"^\s*{_TERM}\s+<([^>]*)>\s+{_TERM}\s*\."


def prepare(
    files: Sequence[str | Path],
    out: str | Path,
    *,
    memory: str = "4GB",
    held_out: int = 10_000,
    progress: Progress | None = None,
) -> Prepared:
    """Prepare the triples of files (TSV, CSV, Parquet, N-Triples; text also as .gz or .zst) or of folders of them.

    A file whose name begins with train, valid or test belongs to that split; in a folder that has such files, others
    are left out. If none is of valid or test, about `held_out` triples are held out for each, chosen by their hash,
    whose entities and relations have other triples. Duplicates are removed, and a triple of train is in no other
    split. Stopped, it is resumed by the same call.
    """
    out, (sources, ignored) = Path(out), _sources(files)
    gigabytes = _gigabytes(memory)
    with writing(out):
        if (out / PREPARED_FILE).exists():
            raise UsageError(f"{out} is prepared already: name a new folder.")
        if out.is_dir() and any(out.iterdir()) and not (out / _WORK).is_dir():
            raise UsageError(f"{out} is already there and not empty: name a folder that is new or empty.")
        (out / _WORK).mkdir(parents=True, exist_ok=True)
        with _database(out / _WORK, gigabytes, sources) as database:
            found = replace(_Preparation(database, out, sources, held_out, progress).run(), ignored=ignored)
        shutil.rmtree(out / _WORK)
        write_json(out / PREPARED_FILE, asdict(found))
    return found


class _Preparation:
    """The steps, each done once."""

    def __init__(
        self, database: duckdb.DuckDBPyConnection, out: Path, sources: list[Path], held_out: int, progress: Any
    ) -> None:
        self.database, self.out, self.sources, self.held_out, self.progress = database, out, sources, held_out, progress
        self.done = {name for (name,) in database.execute("select name from steps").fetchall()}
        self._count = 0

    def run(self) -> Prepared:
        steps: list[tuple[str, Callable[[], None]]] = [
            ("read", self._read),
            ("relations", lambda: self._words("relations", "select relation as word from spelled")),
            ("entities", lambda: self._words("entities", f"{_HEADS} union all select tail from spelled")),
            ("heads", lambda: self._join("headed", "spelled", "head", "entities", "relation, tail, split")),
            ("linked", lambda: self._join("linked", "headed", "relation", "relations", "head, tail, split")),
            ("tails", lambda: self._join("tailed", "linked", "tail", "entities", "head, relation, split")),
            ("distinct", self._distinct),
            ("held out", self._hold_out),
        ]  # fmt: skip
        for number, (name, step) in enumerate(steps):
            self._once(name, step)
            self._tell(number + 1, len(steps) + 4)
        sizes = self._sizes()
        self._write(sizes, len(steps))
        return sizes

    def _once(self, name: str, step: Callable[[], None]) -> None:
        if name in self.done:
            return
        self.database.execute("begin")
        step()
        self.database.execute("insert into steps values (?)", [name])
        self.database.execute("commit")
        self.database.execute("checkpoint")

    def _tell(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)

    def _read(self) -> None:
        self.database.execute("create or replace table spelled (head text, relation text, tail text, split tinyint)")
        for path in self.sources:
            split = SPLITS.index(split_named(path) or "train")
            _refuse_long_lines(path)
            try:
                self.database.execute(f"insert into spelled select *, {split} from ({_select(path)})")
            except Exception as error:  # DuckDB's errors have a base class that is known only where it is installed
                raise InputError(f"cannot be read: {_told(error)}", file=path) from None
        bad = "head is null or relation is null or tail is null or head = '' or relation = '' or tail = ''"
        (missing,) = self._one(f"select count(*) from spelled where {bad}")
        if missing:
            raise InputError(f"{missing:,} of its triples lack a word.", file=self.sources[0].parent)
        (total,) = self._one("select count(*) from spelled")
        if not total:
            raise InputError("there are no triples.", file=self.sources[0])

    def _words(self, table: str, words: str) -> None:
        self.database.execute(f"create or replace temp table found as select distinct word from ({words})")
        self.database.execute(
            f"create or replace table {table} as select word, (row_number() over "
            "(order by md5_number_lower(word), word) - 1)::integer as id from found"
        )
        self.database.execute("drop table found")

    def _join(self, into: str, source: str, column: str, words: str, kept: str) -> None:
        """A column of words becomes one of ids; the table that it came from is no longer needed."""
        self.database.execute(
            f"create or replace table {into} as select {kept}, id as {column} from {source} "
            f"join {words} on word = {column}"
        )
        self.database.execute(f"drop table {source}")

    def _distinct(self) -> None:
        self.database.execute(
            "create or replace table triples as select head, relation, tail, min(split) as split from tailed "
            "group by head, relation, tail"
        )
        self.database.execute("drop table tailed")

    def _hold_out(self) -> None:
        """Some of the training triples for valid and test, where the files have none."""
        (given,) = self._one("select count(*) from triples where split > 0")
        (total,) = self._one("select count(*) from triples")
        wanted = min(self.held_out, total // 20)
        if given or not wanted:
            return
        key = "md5_number_lower(head || ' ' || relation || ' ' || tail)"
        limit = f"{int(4 * wanted / total * 2**64)}::ubigint"
        self.database.execute(
            f"create or replace temp table drawn as select *, {key} as key from triples where {key} < {limit}"
        )
        for column in ("head", "relation", "tail"):  # whoever stands only in what is drawn stays
            self.database.execute(
                f"create or replace temp table kept_{column} as select distinct {column} as id from triples "
                f"where {key} >= {limit}"
            )
        self.database.execute(
            "create or replace temp table chosen as select head, relation, tail, row_number() over (order by key) as n "
            "from drawn where relation in (select id from kept_relation) "
            "and (head in (select id from kept_head) or head in (select id from kept_tail)) "
            "and (tail in (select id from kept_tail) or tail in (select id from kept_head)) "
            f"qualify n <= {2 * wanted}"
        )
        self.database.execute(
            "update triples set split = 1 + (n % 2) from chosen where triples.head = chosen.head and "
            "triples.relation = chosen.relation and triples.tail = chosen.tail"
        )

    def _sizes(self) -> Prepared:
        counts = dict(self.database.execute("select split, count(*) from triples group by split").fetchall())
        (entities,), (relations,) = (self._one(f"select count(*) from {table}") for table in ("entities", "relations"))
        train, valid, test = (counts.get(split, 0) for split in range(3))
        name = self.sources[0].parent.name if len(self.sources) > 1 else self.sources[0].name.split(".")[0]
        return Prepared(name, entities, relations, train, valid, test, max(1, -(-train // _PART)))

    def _write(self, sizes: Prepared, before: int) -> None:
        """The files. Those that are there already are whole: each is renamed into its place."""
        starts = bounds(sizes.entities, sizes.parts)
        ranges = [f"between {first} and {last - 1}" for first, last in pairwise(starts)]
        for number, within in enumerate(ranges):
            self._copy(
                part_file(self.out, "entities", number),
                f"select word as identifier from entities where id {within} order by id",
            )
        self._tell(before + 1, before + 4)
        for place, (folder, order) in enumerate(
            (("by_head", "head, relation, tail"), ("by_tail", "tail, relation, head"))
        ):
            for number, within in enumerate(ranges):
                where = f"split = 0 and {folder[3:]} {within}"
                self._copy(
                    part_file(self.out, folder, number),
                    f"select head, relation, tail from triples where {where} order by {order}",
                )
            self._tell(before + 2 + place, before + 4)
        self._copy(self.out / "relations.parquet", "select word as identifier from relations order by id")
        for split in (1, 2):
            columns = f"select head, relation, tail from triples where split = {split} order by head, relation, tail"
            self._copy(self.out / f"{SPLITS[split]}.parquet", columns)
        self._tell(before + 4, before + 4)

    def _copy(self, path: Path, query: str) -> None:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part = self.out / _WORK / f"{path.parent.name}-{path.name}"
        self.database.execute(
            f"copy ({query}) to {_quoted(part)} (format parquet, compression zstd, row_group_size 100000)"
        )
        part.rename(path)

    def _one(self, query: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self.database.execute(query).fetchone()
        assert row is not None
        return row


@contextmanager
def _database(work: Path, gigabytes: float, sources: list[Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """The database of the work so far; a new one if the files are no longer the same."""
    import duckdb

    seen = json.dumps([(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in sources])
    if not (work / "sources.json").is_file() or (work / "sources.json").read_text("utf-8") != seen:
        for path in work.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (work / "sources.json").write_text(seen, "utf-8")
    database = duckdb.connect(str(work / "work.duckdb"))
    try:
        database.execute(f"set memory_limit = '{int(gigabytes * _LIMIT * 1000)}MB'")
        database.execute(f"set temp_directory = {_quoted(work / 'spill')}")
        database.execute("set preserve_insertion_order = false")
        if gigabytes < _LITTLE:
            database.execute("set threads = 1")
        database.execute("create table if not exists steps (name text)")
        yield database
    finally:
        database.close()


def _sources(files: Sequence[str | Path]) -> tuple[list[Path], tuple[str, ...]]:
    """The files of triples, and the names of those of folders that are left out."""
    found: list[Path] = []
    ignored: list[str] = []
    for given in map(Path, files):
        if not given.exists():
            raise InputError("there is no such file or folder.", file=given, remedy="Check the path.")
        if not given.is_dir():
            found.append(given)
            continue
        inside = sorted(path for path in given.iterdir() if path.is_file())
        known = [path for path in inside if _kind(path) and not is_names(path)]
        chosen = [path for path in known if split_named(path)] or known
        found += chosen
        ignored += [path.name for path in inside if path not in chosen]
    for path in found:
        if _kind(path) is None:
            raise InputError(
                "its kind is not known.", file=path, remedy="Prepare .tsv, .txt, .csv, .parquet or .nt files."
            )
    if not found:
        raise InputError("there is no file of triples.", file=Path(files[0]) if files else None)
    return found, tuple(ignored)


def _told(error: Exception) -> str:
    """DuckDB's error without its advice: what is wrong comes in the first lines, up to an empty one."""
    lines = list(takewhile(str.strip, str(error).splitlines()))
    return "; ".join(line.strip() for line in lines[:4])


def _kind(path: Path) -> str | None:
    packed = path.suffix.lower() in PACKINGS
    return None if packed and path.suffix.lower() not in _UNPACKED else _ENDINGS.get(ending(path))


def _refuse_long_lines(path: Path) -> None:
    """DuckDB leaves out a line that is longer than its buffer, and says nothing."""
    if _kind(path) != "parquet":
        with source_of(path).open() as stream:
            while stream.read(_CHUNK):
                pass


def _select(path: Path) -> str:
    """The three columns of a file."""
    file, kind = _quoted(path), _kind(path)
    if kind == "parquet":
        columns = ", ".join(f'"{name}"::text' for name in _parquet_columns(path))
        return f"select {columns} from read_parquet({file})"
    plain = "auto_detect = false, quote = '', escape = ''"
    if kind != "nt":
        delimiter, count, chosen, has_header = _first_line(path, kind == "csv")
        columns = ", ".join(f"trim(column{place})" for place in chosen)
        names = "columns = {" + ", ".join(f"'column{place}': 'text'" for place in range(count)) + "}"
        quoting = "auto_detect = false, quote = '\"', escape = '\"'" if kind == "csv" else plain
        options = f"delim = '{delimiter}', header = {str(has_header).lower()}, {quoting}, {names}"
        return f"select {columns} from read_csv({file}, {options})"
    line = f"select line from read_csv({file}, delim = '\\x01', header = false, {plain}, columns = {{'line': 'text'}})"
    names = "['head', 'blank', 'relation', 'tail', 'other']"
    return (
        "select if(t.head = '', t.blank, t.head), t.relation, if(t.tail = '', t.other, t.tail) from "
        f"(select regexp_extract(line, '{_TRIPLE}', {names}) as t from ({line})) where t.relation <> ''"
    )


def _first_line(path: Path, quoted: bool) -> tuple[str, int, tuple[int, ...], bool]:
    """By its first line, how a file's columns are separated, how many they are, which are head, relation and tail, and
    whether that line is a header."""
    with source_of(path).open() as stream:
        line = stream.readline().decode("utf-8-sig", "replace").rstrip("\r\n")
    if not line.strip():
        return "\t", 3, (0, 1, 2), False
    delimiter = max(",;|\t", key=line.count) if quoted else "\t"
    cells = next(csv.reader([line], delimiter=delimiter), []) if quoted else line.split(delimiter)
    if len(cells) != 3 and not names_columns(cells):
        columns = "column" if len(cells) == 1 else "columns"
        what = f"its first line has {len(cells)} {columns}, and a triple has three."
        raise InputError(what, file=path, line=1, remedy="Name the columns head, relation and tail there.")
    chosen, has_header = choose_columns(cells, ReadingOptions(), path, 1)
    return delimiter, len(cells), chosen[:3], has_header


def _parquet_columns(path: Path) -> list[str]:
    """head, relation and tail by their names, or else the first three columns."""
    import pyarrow.parquet as pq

    names: list[str] = pq.read_schema(path).names
    if len(names) < 3:
        raise InputError(f"it has {len(names)} columns, and a triple has three.", file=path)
    wanted = ["head", "relation", "tail"]
    return wanted if set(wanted) <= set(names) else names[:3]


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _gigabytes(text: str) -> float:
    units = {"GB": 1.0, "G": 1.0, "MB": 1e-3, "M": 1e-3}
    for unit, factor in units.items():
        number = text.upper().removesuffix(unit).strip()
        if text.upper().endswith(unit) and number.replace(".", "", 1).isdigit() and float(number) * factor >= 0.25:
            return float(number) * factor
    raise UsageError(f"--memory {text}: give gigabytes or megabytes, at least 250MB, such as 4GB.")
