"""Predicted triples as files: TSV, CSV, Parquet and N-Triples."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph

from transher.answering.predicted import Predicted, in_names
from transher.deadline import slices
from transher.errors import UsageError
from transher.files import replacing
from transher.graph.graph import Graph

ENDINGS = (".tsv", ".csv", ".parquet", ".nt")
_BLOCK = 100_000  # facts that are in words at a time


def refuse_unknown_ending(path: Path) -> None:
    if path.suffix not in ENDINGS:
        raise UsageError(f"{path}: its ending says what to write, and must be one of {' '.join(ENDINGS)}.")


def write_facts(path: Path, graph: Graph, facts: Predicted, evidence: Sequence[str] | None = None) -> None:
    """Facts in the order that they have, in the format that the path's ending names; the file appears when it is
    whole. N-Triples has identifiers only: IRIs as they are, other identifiers as `urn:transher:…`."""
    refuse_unknown_ending(path)
    with replacing(path) as file:
        match path.suffix:
            case ".parquet":
                _write_parquet(file, _tables(graph, facts, evidence))
            case ".nt":
                _write_rdf(file, _tables(graph, facts, evidence))
            case ending:
                _write_text(file, _tables(graph, facts, evidence), "\t" if ending == ".tsv" else ",")


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
    return str(_table(graph, facts).to_csv(sep="\t", index=False))


def _table(graph: Graph, facts: Predicted, first_rank: int = 1) -> pd.DataFrame:
    return in_names(graph, facts, first_rank).drop(columns="known")  # none of them is


def _write_text(file: BinaryIO, tables: Iterator[pd.DataFrame], separator: str) -> None:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    for number, table in enumerate(tables):
        table.to_csv(text, sep=separator, index=False, header=number == 0, quoting=csv.QUOTE_MINIMAL)
    text.detach()


def _write_parquet(file: BinaryIO, tables: Iterator[pd.DataFrame]) -> None:
    writer: pq.ParquetWriter | None = None
    for table in tables:
        arrow = pa.Table.from_pandas(table, preserve_index=False)
        if writer is None:
            writer = pq.ParquetWriter(file, arrow.schema, compression="zstd")
        writer.write_table(arrow)
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
        return pyoxigraph.NamedNode(f"urn:transher:{kind}:{quote(identifier, safe='')}")


def _value(identifier: str) -> object:
    """As `_node`; a tail may also be a literal, which was read as N-Triples writes it."""
    if identifier.startswith('"'):
        try:
            line = f"<urn:a> <urn:b> {identifier} ."
            return next(iter(pyoxigraph.parse(line, pyoxigraph.RdfFormat.N_TRIPLES))).object
        except (SyntaxError, StopIteration):
            pass
    return _node(identifier, "entity")
