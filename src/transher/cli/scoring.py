"""What `transher score` does with a file: block by block in, scored, and out, with every column that it had."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click
import pyarrow as pa

from transher.cli.options import as_json_text
from transher.cli.progress import download_bar
from transher.errors import InputError, UnknownNameError
from transher.graph.addresses import is_address, local_copy
from transher.graph.faults import BadRows
from transher.graph.options import ReadingOptions
from transher.graph.rows import ENDS, Rows, read_rows, unused
from transher.runs.run import Run
from transher.runs.scoring import ADDED, Unknown, judge_words
from transher.visible import shown


@contextmanager
def local_file(source: str, options: ReadingOptions) -> Iterator[Path]:
    """The file itself, or a copy of standard input (`-`) or of an address for as long as the block lasts."""
    if not is_address(source):
        yield Path(source)
        return
    with download_bar() as update, local_copy(source, options, update) as copy:
        yield copy


class Scoring:
    """The rows of a file with their scores, and how many had a name that the graph lacks."""

    def __init__(
        self, run: Run, path: Path, options: ReadingOptions, unknown: Unknown, missing_share: float | None
    ) -> None:
        self._run, self._path, self._options = run, path, options
        self._unknown, self._missing_share = unknown, missing_share
        self._bad_rows = BadRows()
        self._count = 0
        self._not_found = 0

    def blocks(self) -> Iterator[pa.Table]:
        """The columns head, relation and tail, then the file's others, then score and, where there is one, probability.
        At least one block, which may be empty."""
        for rows in read_rows(self._path, self._options, self._bad_rows):
            self._count += len(rows.places)
            yield self._scored(rows)
        if not self._count:
            found = f" but {self._bad_rows.count:,} bad rows" if self._bad_rows.count else ""
            remedy = "Give a head, relation and tail in each line."
            raise InputError(f"has no triples{found}.", file=self._path, remedy=remedy)

    def told(self, out: Path | None) -> Iterator[str]:
        """What to tell once all is written."""
        if out is not None:
            left = self._not_found if self._unknown == "skip" else 0
            yield f"{self._count - left:,} triples are in {out}."
        if self._bad_rows.count:
            yield f"{self._bad_rows.count:,} bad rows were left out: {'; '.join(self._bad_rows.examples)}"
        if self._not_found:
            done = "were left out" if self._unknown == "skip" else "have no score"
            why = "the graph lacks one of their names, or has it more than once"
            yield f"{self._not_found:,} of {self._count:,} rows {done}: {why}."

    def _scored(self, rows: Rows) -> pa.Table:
        words = [rows.triples[column].cast(pa.string()).combine_chunks() for column in ENDS]
        try:
            worth = judge_words(
                self._run.answering, words, self._unknown, self._missing_share, partial(self._place, rows)
            )
        except UnknownNameError as error:
            header = " If it is a header: --header yes." if str(error).startswith(f"{self._path}, line 1:") else ""
            raise InputError(f"{error}{header}") from None
        self._not_found += int((~worth.meant).sum())
        table = _table(rows).append_column("score", pa.array(worth.scores, mask=~worth.meant))
        if worth.probabilities is not None:
            table = table.append_column("probability", pa.array(worth.probabilities, mask=~worth.meant))
        return table.filter(pa.array(worth.meant)) if self._unknown == "skip" else table

    def _place(self, rows: Rows, row: int) -> str:
        return f"{self._path}, {rows.unit} {rows.places[row]}"


def _table(rows: Rows) -> pa.Table:
    """The triple and the file's other columns; those that are called as ours are get a number behind their name."""
    table = rows.triples.cast(pa.schema([(name, pa.string()) for name in ENDS]))
    for name, column in zip(rows.others.column_names, rows.others.columns, strict=True):
        table = table.append_column(unused(name, {*ADDED, *table.column_names}), column)
    return table


def shown_in_terminal(blocks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The blocks as they are, or, if they go to a terminal, without what a terminal would obey."""
    for block in blocks:
        yield (
            pa.table({shown(name): _shown(block[name]) for name in block.column_names})
            if sys.stdout.isatty()
            else block
        )


def _shown(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    return pa.array([None if text is None else shown(text) for text in column.to_pylist()], pa.string())


def print_records(blocks: Iterable[pa.Table]) -> None:
    """One JSON array with an object per row, written as the blocks come."""
    separator = "["
    for block in blocks:
        for record in block.to_pylist():
            click.echo(f"{separator}\n  {as_json_text(record)}", nl=False)
            separator = ","
    click.echo("[]" if separator == "[" else "\n]")
