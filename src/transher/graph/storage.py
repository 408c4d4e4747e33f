"""A graph in a folder of Parquet files, as a run keeps it: names and ids, so that it answers with no other file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from transher.errors import InputError
from transher.files import replacing
from transher.graph.graph import SPLITS, Candidates, Graph, Split, Triples
from transher.graph.vocabulary import Vocabulary

_REMEDY = "The folder is not whole; save the graph again."
_COLUMNS = ("head", "relation", "tail")


def save_graph(graph: Graph, folder: Path) -> None:
    """Write the graph, all but its load report, into `folder`:

    entities.parquet and relations.parquet (identifier, name, description, and the entities' type) in id order;
    train.parquet, valid.parquet and test.parquet (head, relation, tail as ids, and the training triples' weight);
    and, where a split has supplied candidates, e.g. test_candidates.parquet (head, tail: lists of entity ids).
    """
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
        types = entities["type"].combine_chunks()
        entity_types = types.indices.to_numpy().astype(np.int32)
        type_names = tuple(types.dictionary.to_pylist())
    candidates: dict[Split, Candidates] = {}
    for split in SPLITS:
        path = folder / f"{split}_candidates.parquet"
        if path.exists():
            table = _read(path)
            if len(table) != len(triples[split]):
                raise InputError(f"{len(table):,} rows for {len(triples[split]):,} triples.", file=path, remedy=_REMEDY)
            candidates[split] = Candidates(_array(table["head"]), _array(table["tail"]))
    return Graph(
        name=(entities.schema.metadata or {}).get(b"name", folder.name.encode()).decode(),
        entities=_vocabulary("entity", entities),
        relations=_vocabulary("relation", relations),
        train=triples["train"],
        valid=triples["valid"],
        test=triples["test"],
        train_weights=tables["train"]["weight"].to_numpy() if "weight" in tables["train"].column_names else None,
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
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"cannot be read: {error}", file=path, remedy=_REMEDY) from error


def _vocabulary_columns(vocabulary: Vocabulary) -> dict[str, Any]:
    columns = {"identifier": vocabulary.identifiers}
    if vocabulary.names is not None:
        columns["name"] = vocabulary.names
    if vocabulary.descriptions is not None:
        columns["description"] = vocabulary.descriptions
    return columns


def _vocabulary(kind: str, table: pa.Table) -> Vocabulary:
    identifiers, names, descriptions = (
        pa.concat_arrays(table[column].chunks) if column in table.column_names and len(table) else None
        for column in ("identifier", "name", "description")
    )
    return Vocabulary(kind, pa.array([], pa.string()) if identifiers is None else identifiers, names, descriptions)


def _triples(path: Path, table: pa.Table, entity_count: int, relation_count: int) -> Triples:
    triples = np.empty((len(table), 3), dtype=np.int32)
    for column, (name, count) in enumerate(zip(_COLUMNS, (entity_count, relation_count, entity_count), strict=True)):
        if name not in table.column_names:
            raise InputError(f"there is no column {name!r}.", file=path, remedy=_REMEDY)
        triples[:, column] = table[name].to_numpy()
        if len(triples) and not 0 <= triples[:, column].min() <= triples[:, column].max() < count:
            raise InputError(f"a {name} is not an id below {count:,}.", file=path, remedy=_REMEDY)
    return triples


def _lists(ids: NDArray[np.int32]) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(ids.reshape(-1)), ids.shape[1])


def _array(lists: pa.ChunkedArray) -> NDArray[np.int32]:
    flat = lists.combine_chunks().flatten().to_numpy()
    return np.asarray(flat, dtype=np.int32).reshape(len(lists), lists.type.list_size)
