"""Tables of triples as files: TSV, CSV, Parquet and, of predicted triples, N-Triples.

Parquet and N-Triples hold every name as it is. TSV has no quotes, so that programs and this package read back what was
written; a tab or line end within a name is written as `\\t`, `\\n` or `\\r`. CSV is what people open in a spreadsheet:
text that a spreadsheet would take for a formula (it begins with =, +, - or @ and is not a number) gets an apostrophe in
front, which the spreadsheet shows as text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyoxigraph

from transher.answering.predicted import Predicted, in_names
from transher.deadline import slices
from transher.errors import UsageError
from transher.files import replacing
from transher.graph.graph import Graph
from transher.graph.options import option

TABLE_ENDINGS = (".tsv", ".csv", ".parquet")
ENDINGS = (*TABLE_ENDINGS, ".nt")
URN = "urn:transher:"  # of identifiers that are no RDF terms
_BLOCK = 100_000  # facts that are in words at a time
_FORMULA = "^[=+@\\-\t\r＝＋－＠]"  # the wide forms too: some spreadsheets take them for the narrow ones
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def refuse_unknown_ending(path: Path, endings: Sequence[str] = ENDINGS) -> None:
    if path.suffix.lower() not in endings:
        raise UsageError(f"{path}: the ending says what to write, and must be one of {' '.join(endings)}.")


def refuse_existing(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise UsageError(
            f"{path} is there already, and is left as it is. Give another file, or {option('overwrite')} to replace it."
        )


def write_facts(path: Path, graph: Graph, facts: Predicted, evidence: Sequence[str] | None = None) -> None:
    """Facts in the order that they have, in the format that the path's ending names; the file appears when it is
    whole. N-Triples has identifiers only: IRIs as they are, other identifiers as `urn:transher:…`."""
    refuse_unknown_ending(path)
    tables = _tables(graph, facts, evidence)
    with replacing(path) as file:
        if path.suffix.lower() == ".nt":
            _write_rdf(file, tables)
        else:
            write_blocks(file, path.suffix.lower(), map(_as_arrow, tables))


def write_table(path: Path, table: pd.DataFrame, overwrite: bool = False) -> None:
    """A whole table as a new .tsv, .csv or .parquet."""
    refuse_unknown_ending(path, TABLE_ENDINGS)
    refuse_existing(path, overwrite)
    with replacing(path) as file:
        write_blocks(file, path.suffix.lower(), [_as_arrow(table)])


def written(words: pa.Array, ending: str) -> pa.Array:
    """Words as they stand in a file with this ending."""
    return {".tsv": _on_one_line, ".csv": _no_formula}.get(ending, lambda same: same)(words)


def write_blocks(file: BinaryIO, ending: str, blocks: Iterable[pa.Table]) -> None:
    """A table that comes in blocks of the same columns, of which there is at least one, as .tsv, .csv or .parquet."""
    if ending == ".parquet":
        _write_parquet(file, blocks)
        return
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    for number, block in enumerate(blocks):
        _write_text(text, ending, block, with_header=number == 0)
    text.detach()


def _tables(graph: Graph, facts: Predicted, evidence: Sequence[str] | None) -> Iterator[pd.DataFrame]:
    for block in slices(len(facts), _BLOCK):
        table = _table(graph, facts.take(block), block.start + 1)
        if evidence is not None:
            table["evidence"] = evidence[block]
        yield table
    if not len(facts):
        yield _table(graph, facts)


def as_tsv(graph: Graph, facts: Predicted) -> str:
    """What `write_facts` writes to a .tsv."""
    return table_as_tsv(_table(graph, facts))


def table_as_tsv(table: pd.DataFrame) -> str:
    """What `write_table` writes to a .tsv."""
    text = io.StringIO()
    _write_text(text, ".tsv", _as_arrow(table), with_header=True)
    return text.getvalue()


def _table(graph: Graph, facts: Predicted, first_rank: int = 1) -> pd.DataFrame:
    return in_names(graph, facts, first_rank).drop(columns="known")  # none of them is


def _as_arrow(table: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(table, preserve_index=False)


def _write_text(text: io.TextIOBase, ending: str, block: pa.Table, *, with_header: bool) -> None:
    if ending == ".tsv":
        dialect, safe = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None}, _on_one_line
    else:
        dialect, safe = {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL}, _no_formula
    writer = csv.writer(text, lineterminator="\n", **dialect)  # type: ignore[arg-type]
    if with_header:
        writer.writerow(safe(pa.array(block.column_names, pa.string())).to_pylist())
    columns = (safe(_as_text(column)).to_pylist() for column in block.combine_chunks().itercolumns())
    writer.writerows(zip(*columns, strict=True))


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Every value as text; nothing where there is none."""
    try:
        return pc.fill_null(column.cast(pa.string()), "")
    except pa.ArrowException:  # lists and the like
        values = ("" if value is None else json.dumps(value, default=str) for value in column.to_pylist())
        return pa.chunked_array([pa.array(values, pa.string())])


def _on_one_line(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    for character, written in (("\t", r"\t"), ("\n", r"\n"), ("\r", r"\r")):
        column = pc.replace_substring(column, character, written)
    return column


def _no_formula(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    like_one = pc.and_not(pc.match_substring_regex(column, _FORMULA), pc.match_substring_regex(column, _NUMBER))
    return pc.if_else(like_one, pc.binary_join_element_wise("'", column, ""), column)


def _write_parquet(file: BinaryIO, blocks: Iterable[pa.Table]) -> None:
    writer: pq.ParquetWriter | None = None
    for block in blocks:
        if writer is None:
            writer = pq.ParquetWriter(file, block.schema, compression="zstd")
        writer.write_table(block)
    if writer is not None:
        writer.close()


def _write_rdf(file: BinaryIO, tables: Iterator[pd.DataFrame]) -> None:
    for table in tables:
        for row in table.itertuples():
            subject, predicate = _node(str(row.head_id), "entity"), _node(str(row.relation_id), "relation")
            triple = f"{subject} {predicate} {_value(str(row.tail_id))}"
            comment = f"probability {row.probability:.6f}, score {row.score:.4f}"
            if "evidence" in table:
                comment += f", {' '.join(str(row.evidence).split())}"
            file.write(f"{triple} . # {comment}\n".encode())


def _node(identifier: str, kind: str) -> pyoxigraph.NamedNode | pyoxigraph.BlankNode:
    """The RDF term that an identifier was read from, or one that stands for it."""
    try:
        if identifier.startswith("_:") and kind == "entity":
            return pyoxigraph.BlankNode(identifier[2:])
        return pyoxigraph.NamedNode(identifier)
    except ValueError:
        return pyoxigraph.NamedNode(f"{URN}{kind}:{quote(identifier, safe='')}")


def _value(identifier: str) -> object:
    """As `_node`; a tail may also be a literal, which was read as N-Triples writes it."""
    if identifier.startswith('"'):
        try:
            line = f"<urn:a> <urn:b> {identifier} ."
            return next(iter(pyoxigraph.parse(line, pyoxigraph.RdfFormat.N_TRIPLES))).object
        except (SyntaxError, StopIteration):
            pass
    return _node(identifier, "entity")
