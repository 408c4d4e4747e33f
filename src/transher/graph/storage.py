"""A graph in a folder of Parquet files, as a run keeps it: names and ids, so that it answers with no other file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from transher.errors import InputError
from transher.files import replacing
from transher.graph.graph import SIDES, SPLITS, Candidates, Graph, Side, Split, Triples
from transher.graph.prepared import copy_prepared, is_prepared, load_prepared
from transher.graph.vocabulary import Vocabulary

_REMEDY = "The folder is not whole; save the graph again."
_COLUMNS = ("head", "relation", "tail")


def save_graph(graph: Graph, folder: Path) -> None:
    """Write the graph, all but its load report, into `folder`:

    entities.parquet and relations.parquet (identifier, name, description, and the entities' type) in id order;
    train.parquet, valid.parquet and test.parquet (head, relation, tail as ids, and the training triples' weight);
    and, where a split has supplied candidates, e.g. test_candidates.parquet (head, tail: lists of entity ids).
    """
    if graph.prepared is not None:
        copy_prepared(graph.prepared, folder)
        return
    entities = _vocabulary_columns(graph.entities)
    if graph.entity_types is not None:
        entities["type"] = pa.DictionaryArray.from_arrays(
            pa.array(graph.entity_types), pa.array(list(graph.type_names), pa.string())
        )
    _write(folder / "entities.parquet", entities, {"name": graph.name})
    _write(folder / "relations.parquet", _vocabulary_columns(graph.relations))
    for split in SPLITS:
        columns = dict(zip(_COLUMNS, map(pa.array, graph.split(split).T), strict=True))
        if split == "train" and graph.train_weights is not None:
            columns["weight"] = pa.array(graph.train_weights)
        _write(folder / f"{split}.parquet", columns)
        if split in graph.candidates:
            supplied = graph.candidates[split]
            both = {"head": _lists(supplied.head), "tail": _lists(supplied.tail)}
            _write(folder / f"{split}_candidates.parquet", both)
        else:
            (folder / f"{split}_candidates.parquet").unlink(missing_ok=True)  # of a graph that was here before


def load_graph_folder(folder: Path) -> Graph:
    """The graph that `save_graph` wrote into `folder`."""
    if is_prepared(folder):
        return load_prepared(folder)
    entities = _read(folder / "entities.parquet")
    relations = _read(folder / "relations.parquet")
    tables = {split: _read(folder / f"{split}.parquet") for split in SPLITS}
    triples = {
        split: _triples(folder / f"{split}.parquet", table, len(entities), len(relations))
        for split, table in tables.items()
    }
    entity_types: NDArray[np.int32] | None = None
    type_names: tuple[str, ...] = ()
    if "type" in entities.column_names:
        types = _column(folder / "entities.parquet", entities, "type", pa.types.is_dictionary).combine_chunks()
        entity_types = types.indices.to_numpy().astype(np.int32)
        type_names = tuple(types.dictionary.cast(pa.string()).to_pylist())
    candidates: dict[Split, Candidates] = {}
    for split in SPLITS:
        path = folder / f"{split}_candidates.parquet"
        if path.exists():
            table = _read(path)
            if len(table) != len(triples[split]):
                raise InputError(f"{len(table):,} rows for {len(triples[split]):,} triples.", file=path, remedy=_REMEDY)
            candidates[split] = Candidates(*(_array(path, table, side, len(entities)) for side in SIDES))
    return Graph(
        name=(entities.schema.metadata or {}).get(b"name", folder.name.encode()).decode(errors="replace"),
        entities=_vocabulary("entity", entities, folder / "entities.parquet"),
        relations=_vocabulary("relation", relations, folder / "relations.parquet"),
        train=triples["train"],
        valid=triples["valid"],
        test=triples["test"],
        train_weights=_weights(folder / "train.parquet", tables["train"]),
        entity_types=entity_types,
        type_names=type_names,
        candidates=candidates,
    )


def _write(path: Path, columns: dict[str, Any], metadata: dict[str, str] | None = None) -> None:
    with replacing(path) as file:
        pa.parquet.write_table(pa.table(columns, metadata=metadata), file, compression="zstd")


def _read(path: Path) -> pa.Table:
    try:
        return pa.parquet.read_table(path)
    except FileNotFoundError as error:
        raise InputError("there is no such file.", file=path, remedy=_REMEDY) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", file=path, remedy=_REMEDY) from error


def _column(path: Path, table: pa.Table, name: str, is_type: Callable[[pa.DataType], bool]) -> pa.ChunkedArray:
    """A column that is there, is of one kind and has a value in every row."""
    if table.column_names.count(name) != 1:
        raise InputError(f"there is no column {name!r}.", file=path, remedy=_REMEDY)
    column = table[name]
    if not is_type(column.type) or column.null_count:
        found = f"{column.null_count:,} empty rows" if column.null_count else f"values of type {column.type}"
        raise InputError(f"the column {name!r} has {found}.", file=path, remedy=_REMEDY)
    return column


def _vocabulary_columns(vocabulary: Vocabulary) -> dict[str, Any]:
    columns = {"identifier": vocabulary.identifiers}
    if vocabulary.names is not None:
        columns["name"] = vocabulary.names
    if vocabulary.descriptions is not None:
        columns["description"] = vocabulary.descriptions
    return columns


def _vocabulary(kind: str, table: pa.Table, path: Path) -> Vocabulary:
    identifiers = _column(path, table, "identifier", pa.types.is_string)
    if len(identifiers.unique()) < len(identifiers):
        raise InputError("an identifier is there twice.", file=path, remedy=_REMEDY)
    for name in {"name", "description"} & set(table.column_names):
        if not pa.types.is_string(table[name].type):
            raise InputError(f"the column {name!r} is not text.", file=path, remedy=_REMEDY)
    identifiers, names, descriptions = (
        pa.concat_arrays(table[column].chunks) if column in table.column_names and len(table) else None
        for column in ("identifier", "name", "description")
    )
    return Vocabulary(kind, pa.array([], pa.string()) if identifiers is None else identifiers, names, descriptions)


def _triples(path: Path, table: pa.Table, entity_count: int, relation_count: int) -> Triples:
    triples = np.empty((len(table), 3), dtype=np.int32)
    for column, (name, count) in enumerate(zip(_COLUMNS, (entity_count, relation_count, entity_count), strict=True)):
        triples[:, column] = _ids(path, _column(path, table, name, pa.types.is_integer), name, count)
    return triples


def _ids(path: Path, column: pa.ChunkedArray, name: str, count: int) -> NDArray[Any]:
    ids = np.asarray(column.to_numpy())
    if len(ids) and not 0 <= ids.min() <= ids.max() < count:
        raise InputError(f"a {name} is not an id below {count:,}.", file=path, remedy=_REMEDY)
    return ids


def _weights(path: Path, table: pa.Table) -> NDArray[np.float32] | None:
    if "weight" not in table.column_names:
        return None
    weights: NDArray[np.float32] = _column(path, table, "weight", pa.types.is_floating).to_numpy().astype(np.float32)
    if not ((weights >= 0) & (weights < np.inf)).all():
        raise InputError("a weight is negative or not finite.", file=path, remedy=_REMEDY)
    return weights


def _lists(ids: NDArray[np.int32]) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(ids.reshape(-1)), ids.shape[1])


def _array(path: Path, table: pa.Table, side: Side, count: int) -> NDArray[np.int32]:
    lists = _column(path, table, side, pa.types.is_fixed_size_list)
    flat = pa.chunked_array(lists.combine_chunks().flatten())
    if flat.null_count or not pa.types.is_integer(flat.type):
        raise InputError(f"the lists of {side!r} are not of ids.", file=path, remedy=_REMEDY)
    return _ids(path, flat, side, count).astype(np.int32).reshape(len(lists), lists.type.list_size)
