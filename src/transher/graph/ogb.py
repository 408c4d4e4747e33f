"""ogbl-wikikg2 and ogbl-biokg, read from the files that the `ogb` package downloads and unpacks.

The files are read here rather than by that package, which needs none of what is needed here and more: it parses all
edges once more into `processed/`, holds every split in memory at 64 bits at once, asks questions on standard input, and
can no longer open its own splits with torch 2.6 or later, whose `torch.load` refuses NumPy arrays by default.

    mapping/nodeidx2entityid.csv.gz, reltype2relid.csv.gz           identifiers (wikikg2)
    mapping/{type}_entidx2name.csv.gz, relidx2relname.csv.gz        identifiers by type (biokg)
    split/{time,random}/{train,valid,test}.pt                       head, relation, tail: (n,)
                                                                    head_neg, tail_neg: (n, 500), not in train
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from transher.errors import InputError
from transher.graph.draft import Draft
from transher.graph.graph import SPLITS, Candidates, Graph, Split, Triples
from transher.graph.report import LoadReport
from transher.graph.vocabulary import Vocabulary

# What a pickle of arrays or tensors refers to.
_ALLOWED = {
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("torch._utils", "_rebuild_tensor_v2"),
}
_REMEDY = "Remove the folder and get the benchmark again, or unpack the archive of ogb.stanford.edu anew."


@dataclass(frozen=True)
class _Nodes:
    """All entities: those of the first type, then those of the second, and so on, each in the order of OGB's ids."""

    vocabulary: Vocabulary
    type_names: tuple[str, ...]  # empty where entities have no types
    offsets: NDArray[np.int64]  # (types + 1,), or (2,) without types: where each type's ids start, and the end

    def spans(self, types: list[str] | None, count: int) -> NDArray[np.int64]:
        """Where the ids of each triple's type start and end among those of the graph: (count, 2)."""
        if not self.type_names:
            return np.broadcast_to(self.offsets, (count, 2))
        if types is None or len(types) != count:
            raise ValueError(f"has types of {0 if types is None else len(types):,} heads or tails, of {count:,}")
        place = {name: number for number, name in enumerate(self.type_names)}
        numbers = np.fromiter((place[name] for name in types), np.int64, count)
        return np.stack([self.offsets[numbers], self.offsets[numbers + 1]], axis=1)


def read_ogb(folder: Path, *, name: str) -> Graph:
    """The graph in a folder that holds ogbl-wikikg2 or ogbl-biokg. OGB's own ids are kept, so scores compare directly;
    where entities have types, OGB's ids within a type follow each other, type by type.

    Memory while reading: one split at a time, up to twice as large as OGB's 64-bit file, beside the candidates so far
    at 32 bits: by that measure some 9 to 12 GB for wikikg2, of which 4.4 GB stay."""
    nodes = _read_nodes(folder)
    relations = _read_mapping(_relation_file(folder))
    triples: dict[Split, Triples] = {}
    candidates: dict[Split, Candidates] = {}
    for split, content in _read_splits(folder):
        try:
            heads = nodes.spans(content.pop("head_type", None), len(content["head"]))
            tails = nodes.spans(content.pop("tail_type", None), len(content["tail"]))
            triples[split] = np.stack(
                [
                    _ids(content.pop("head"), heads),
                    _ids(content.pop("relation"), np.broadcast_to([0, len(relations)], (len(heads), 2)), "relation"),
                    _ids(content.pop("tail"), tails),
                ],
                axis=1,
            )
            if split != "train":
                candidates[split] = Candidates(
                    head=_ids(content.pop("head_neg"), heads, ndim=2), tail=_ids(content.pop("tail_neg"), tails, ndim=2)
                )
        except KeyError as error:
            raise InputError(f"the {split} split has no {error}.", file=folder, remedy=_REMEDY) from error
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise InputError(f"the {split} split {error}.", file=folder, remedy=_REMEDY) from None
    types = (
        np.repeat(np.arange(len(nodes.type_names), dtype=np.int32), np.diff(nodes.offsets))
        if nodes.type_names
        else None
    )
    return Graph(
        name=name,
        entities=nodes.vocabulary,
        relations=Vocabulary("relation", relations),
        train=triples["train"],
        valid=triples["valid"],
        test=triples["test"],
        entity_types=types,
        type_names=nodes.type_names,
        candidates=candidates,
        load_report=_report(nodes.vocabulary.identifiers, relations, triples),
    )


def _report(entities: pa.StringArray, relations: pa.StringArray, triples: dict[Split, Triples]) -> LoadReport:
    """What other graphs are checked for as well. Here nothing is removed: OGB's candidates belong to its triples one by
    one, and its scores compare only on all of them."""
    draft = Draft(entities, relations, triples, files={})
    draft.count_duplicates()
    return LoadReport(
        files={split: f"split/*/{split}.pt" for split in triples},
        duplicates=draft.duplicates,
        duplicates_removed=False,
        overlaps=draft.overlaps(),
        unseen=draft.handle_unseen(drop=False),
    )


def _ids(local: Any, spans: NDArray[np.int64], what: str = "entity", ndim: int = 1) -> NDArray[np.int32]:
    """Ids within types, (n,) or (n, m), as ids of the graph. A wrong id would be an answer about the wrong thing, or a
    crash far from here."""
    given = np.asarray(local)
    if given.ndim != ndim or len(given) != len(spans) or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(
            f"has {given.dtype} of shape {given.shape} where it should have ids for {len(spans):,} triples"
        )
    starts, counts = spans[:, 0], spans[:, 1] - spans[:, 0]
    if given.size:
        low, high = (given, given) if ndim == 1 else (given.min(1), given.max(1))
        bad = np.flatnonzero((low < 0) | (high >= counts))
        if len(bad):
            wrong = low[bad[0]] if low[bad[0]] < 0 else high[bad[0]]
            raise ValueError(f"has the {what} {wrong}, but `mapping/` names {counts[bad[0]]:,}")
    ids: NDArray[np.int32] = given.astype(np.int32)
    ids += (starts if ndim == 1 else starts[:, None]).astype(np.int32)
    return ids


def _read_nodes(folder: Path) -> _Nodes:
    untyped = folder / "mapping" / "nodeidx2entityid.csv.gz"
    if untyped.exists():
        identifiers = _read_mapping(untyped)
        return _Nodes(Vocabulary("entity", identifiers), (), np.array([0, len(identifiers)]))
    ending = "_entidx2name.csv.gz"
    files = sorted((folder / "mapping").glob(f"*{ending}"))
    if not files:
        raise InputError("there is no `mapping/` with the entities' identifiers.", file=folder, remedy=_REMEDY)
    type_names = tuple(file.name.removesuffix(ending) for file in files)
    names = [_read_mapping(file) for file in files]
    # Diseases and side effects share their identifiers, so the type has to be a part of ours.
    identifiers = pa.array(
        [
            f"{type_name}/{name}"
            for type_name, group in zip(type_names, names, strict=True)
            for name in group.to_pylist()
        ],
        pa.string(),
    )
    return _Nodes(
        Vocabulary("entity", identifiers, names=pa.concat_arrays(names)),
        type_names,
        np.cumsum([0, *(len(group) for group in names)]),
    )


def _relation_file(folder: Path) -> Path:
    names = ("reltype2relid.csv.gz", "relidx2relname.csv.gz")
    for name in names:
        if (folder / "mapping" / name).exists():
            return folder / "mapping" / name
    raise InputError(f"there is neither {' nor '.join(names)} in `mapping/`.", file=folder, remedy=_REMEDY)


def _read_mapping(file: Path) -> pa.StringArray:
    """The identifiers of a table with the columns id and identifier, in the order of the ids, which must be 0, 1, …"""
    try:
        table = csv.read_csv(
            file,
            read_options=csv.ReadOptions(column_names=["id", "identifier"], skip_rows=1),
            convert_options=csv.ConvertOptions(column_types={"id": pa.int64(), "identifier": pa.string()}),
        )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}.", file=file, remedy=_REMEDY) from error
    table = table.sort_by("id").combine_chunks()
    if table["id"].null_count or not np.array_equal(table["id"].to_numpy(), np.arange(len(table))):
        raise InputError("does not number its lines 0, 1, 2, …", file=file, remedy=_REMEDY)
    if len(table["identifier"].unique()) != len(table):
        raise InputError("gives two lines the same identifier.", file=file, remedy=_REMEDY)
    return table["identifier"].combine_chunks()


def _read_splits(folder: Path) -> Iterator[tuple[Split, dict[str, Any]]]:
    """Each split as OGB stores it, loaded only when it is asked for."""
    for together in sorted(folder.glob("split/*/split_dict.pt")):
        splits = _load(together)
        for split in SPLITS:
            if not isinstance(splits.get(split), dict):
                raise InputError(f"holds no {split} split.", file=together, remedy=_REMEDY)
            yield split, splits.pop(split)
        return
    for split in SPLITS:
        files = sorted(folder.glob(f"split/*/{split}.pt"))
        if not files:
            raise InputError(f"there is no split/*/{split}.pt.", file=folder, remedy=_REMEDY)
        yield split, _load(files[0])


class _ArraysOnly(pickle.Unpickler):
    """OGB's splits are pickles, which could run anything. This opens those that hold arrays and plain values alone."""

    def find_class(self, module: str, name: str) -> Any:
        # NumPy 2 renamed the module in which this lives; a file may come from either side.
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.empty(0).__reduce__()[0]
        if (module, name) in _ALLOWED:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it holds {module}.{name}, which is no array")


def _load(file: Path) -> dict[str, Any]:
    try:
        content = _load_stream(file) if zipfile.is_zipfile(file) else _load_with_torch(file)
    except Exception as error:  # a broken pickle can raise anything
        raise InputError(f"cannot be read: {error}.", file=file, remedy=_REMEDY) from error
    if not isinstance(content, dict):
        raise InputError("does not hold a split.", file=file, remedy=_REMEDY)
    return content


def _load_stream(file: Path) -> Any:
    """NumPy arrays, unpickled as they come from the disk: torch.load would hold the whole pickle in memory as well."""
    with zipfile.ZipFile(file) as archive:
        pickled = next((name for name in archive.namelist() if name.endswith("/data.pkl")), "data.pkl")
        with archive.open(pickled) as stream:
            try:
                return _ArraysOnly(stream).load()
            except pickle.UnpicklingError:  # tensors, whose numbers are in other members
                return _load_with_torch(file)


def _load_with_torch(file: Path) -> Any:
    import torch

    arrays_only = SimpleNamespace(
        __name__="arrays_only", Unpickler=_ArraysOnly, load=lambda file, **options: _ArraysOnly(file, **options).load()
    )
    return torch.load(file, map_location="cpu", pickle_module=arrays_only, weights_only=False)
