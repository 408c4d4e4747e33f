"""A graph by what people have: a benchmark's name, a path or an address, or triples in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from transher.errors import UsageError, nearest
from transher.graph.addresses import is_address, local_copy
from transher.graph.benchmarks import open_benchmark
from transher.graph.catalogue import BENCHMARKS
from transher.graph.download import DownloadProgress
from transher.graph.graph import Graph
from transher.graph.options import ChosenColumns, Header, ReadingOptions
from transher.graph.prepared import is_prepared, load_prepared
from transher.graph.readers import graph_of, read_graph
from transher.graph.splits import FRACTIONS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def load_graph(
    source: str | Path | pd.DataFrame | pa.Table | NDArray[Any] | Iterable[Sequence[object]],
    *,
    name: str | None = None,
    columns: ChosenColumns | None = None,
    header: Header = "auto",
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    skip_bad_rows: bool = False,
    weights: Sequence[float] | NDArray[np.floating[Any]] | pd.Series[Any] | None = None,
    entity_names: str | Path | Mapping[Any, str] | pd.DataFrame | pa.Table | None = None,
    relation_names: str | Path | Mapping[Any, str] | pd.DataFrame | pa.Table | None = None,
    unseen: Literal["keep", "drop"] = "keep",
    literals: Literal["keep", "drop"] = "drop",
    seed: int = 0,
    fractions: tuple[float, float, float] = FRACTIONS,
    keep_inverse_leaks: bool = False,
    progress: DownloadProgress | None = None,
) -> Graph:
    """The graph that `source` is or names. What was odd about it is in the graph's `load_report`.

    source: a benchmark's name (downloaded if it is nowhere yet); the path of a file of triples, of a folder with train,
        valid and test, of a folder of part files, or of an OpenKE folder; an address (https://, s3://, gs://, or
        another that fsspec knows); "-" for standard input; or triples in Python: a DataFrame, an Arrow table (or what
        gives one, as Polars and DuckDB do), an array (n, 3), or an iterable of (head, relation, tail). Files are TSV
        (.tsv, .txt), CSV, JSON lines (.jsonl), Parquet, N-Triples (.nt), N-Quads (.nq), Turtle (.ttl), TriG (.trig) or
        RDF/XML (.rdf, .owl), all but Parquet also packed (.gz, .bz2, .zst).
    name: what the graph is called; by default as the file or folder.
    columns: which columns hold head, relation, tail and, if a fourth is given, the weight: names, or positions from 0.
        Without it, columns that say so (head/relation/tail, subject/predicate/object, source/relation/target, weight)
        are found, and three columns that do not are taken in this order.
    header: whether the first line of a text file is a header. "auto" finds out: see docs/graphs.md.
    format: what kind of file it is, "csv", where its ending does not say so.
    delimiter: the character between the columns of a text file.
    encoding: of a text or RDF file.
    skip_bad_rows: leave out rows that cannot be read, and count them, rather than stop at the first.
    weights: (n,), a weight per triple that is given in Python, in place of a fourth column.
    entity_names, relation_names: what people call each identifier: a file of `identifier <tab> name [<tab>
        description]`, a mapping, or a table with these columns. A folder's own `entity_names.tsv` and
        `relation_names.tsv` need not be given.
    unseen: whether triples of valid and test with an entity or relation that has no training triple stay.
    literals: whether RDF literals that are no names or descriptions become entities or are left out.
    seed, fractions, keep_inverse_leaks: how triples that are in no splits yet are split: see `split_triples`.
    progress: is told how a download advances.

    Of triples that occur more than once in a split the first stays; their weights are added up.
    """
    options = ReadingOptions(
        name=name,
        columns=columns,
        header=header,
        format=format,
        delimiter=delimiter,
        encoding=encoding,
        skip_bad_rows=skip_bad_rows,
        entity_names=entity_names,
        relation_names=relation_names,
        unseen=unseen,
        literals=literals,
        seed=seed,
        fractions=fractions,
        keep_inverse_leaks=keep_inverse_leaks,
    )
    if not isinstance(source, str | Path):
        return graph_of(source, weights, options)
    if weights is not None:
        raise UsageError("weights is for triples in Python: name a file's column of weights as the fourth of columns.")
    if isinstance(source, str) and is_address(source):
        with local_copy(source, options, progress) as copy:
            return read_graph(copy, options)
    if _exists(source) and is_prepared(Path(source)):
        return load_prepared(Path(source))
    if _exists(source) or isinstance(source, Path):
        return read_graph(source, options)
    return _benchmark(source, options, progress)


def _benchmark(name: str, options: ReadingOptions, progress: DownloadProgress | None) -> Graph:
    if name.lower() not in BENCHMARKS:
        hint = nearest(name, BENCHMARKS) or f"Benchmarks: {', '.join(BENCHMARKS)}."
        raise UsageError(f"There is no benchmark and no file or folder called '{name}'. {hint}")
    changed = [field.name for field in fields(options) if not _same(getattr(options, field.name), field.default)]
    if changed:
        raise UsageError(
            f"{name.lower()} is a benchmark, read as it is: {', '.join(changed)} is for graphs of your own."
        )
    return open_benchmark(name.lower(), progress)


def _same(value: object, default: object) -> bool:
    """Whether an option was left as it is; a DataFrame cannot be compared with None."""
    return value is default if default is None else value == default


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long for a name, or with a zero in it
        return False
