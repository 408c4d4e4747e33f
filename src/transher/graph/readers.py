"""A graph from files: one call for every form that triples come in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from transher.errors import InputError, UsageError
from transher.graph.draft import Draft
from transher.graph.encoding import SPELLING, SpelledTriples, encode
from transher.graph.graph import SPLITS, Graph, Split
from transher.graph.names import Names, named_vocabulary, read_names
from transher.graph.openke import is_openke, read_openke
from transher.graph.rdf import RdfFile
from transher.graph.report import LoadReport
from transher.graph.sources import ENDINGS, PARQUET_ENDINGS, RDF_ENDINGS, TEXT_ENDINGS, ending, find_sources
from transher.graph.splits import FRACTIONS
from transher.graph.tables import Columns, read_parquet, read_text

_ENDS = ("head", "relation", "tail")


def read_graph(
    path: Path | str,
    *,
    columns: Columns | None = None,
    entity_names: Path | str | None = None,
    relation_names: Path | str | None = None,
    unseen: Literal["keep", "drop"] = "keep",
    literals: Literal["keep", "drop"] = "drop",
    seed: int = 0,
    fractions: tuple[float, float, float] = FRACTIONS,
    keep_inverse_leaks: bool = False,
) -> Graph:
    """The graph in `path`: one file of triples, or a folder with train, valid and test, or an OpenKE folder.

    Files are TSV (.tsv, .txt), CSV, Parquet, N-Triples (.nt) or Turtle (.ttl); text may be gzip (.gz). What was odd
    about them is in the graph's `load_report`.

    columns: which columns hold head, relation, tail and, if a fourth is given, the weight: names in the header, or
        positions from 0. Without it, a header that says so (head/relation/tail, subject/predicate/object,
        source/relation/target, weight) is understood, and three columns without a header are taken in this order.
    entity_names, relation_names: files of `identifier <tab> name [<tab> description]`. A folder's own
        `entity_names.tsv` and `relation_names.tsv` need not be given.
    unseen: whether triples of valid and test with an entity or relation that has no training triple stay.
    literals: whether RDF literals that are no names or descriptions become entities or are left out.
    seed, fractions, keep_inverse_leaks: how a single file, or a folder with `train` only, is split: see
        `split_triples`.

    Of triples that occur more than once in a split the first stays; their weights are added up.
    """
    path = Path(path)
    if unseen not in ("keep", "drop") or literals not in ("keep", "drop"):
        raise UsageError(f"unseen={unseen!r}, literals={literals!r}: each is 'keep' or 'drop'.")
    if not path.exists():
        raise InputError("there is no such file or folder.", file=path, remedy="Check the path.")
    keep_literals = literals == "keep"
    if path.is_dir():
        draft = _read_folder(path, columns, keep_literals)
    else:
        draft = _read_splits({"train": path}, columns, keep_literals)
    for given, names in ((entity_names, draft.entity_names), (relation_names, draft.relation_names)):
        if given is not None:
            names.insert(0, read_names(Path(given)))
    draft.remove_duplicates()
    split_by_seed: int | None = None
    unfilled: tuple[Split, ...] = ()
    if list(draft.splits) == ["train"]:
        split_by_seed = seed
        draft.split(seed, fractions, keep_inverse_leaks)
        shares = dict(zip(SPLITS, fractions, strict=True))
        unfilled = tuple(split for split in SPLITS if shares[split] and not len(draft.splits[split]))
    overlaps = draft.overlaps()
    unseen_found = draft.handle_unseen(drop=unseen == "drop")
    none = np.empty((0, 3), dtype=np.int32)
    return Graph(
        name=path.name if path.is_dir() else path.name.split(".")[0],
        entities=named_vocabulary("entity", draft.entities, draft.entity_names),
        relations=named_vocabulary("relation", draft.relations, draft.relation_names),
        train=draft.splits["train"],
        valid=draft.splits.get("valid", none),
        test=draft.splits.get("test", none),
        train_weights=draft.weights,
        load_report=LoadReport(
            files=draft.files,
            split_by_seed=split_by_seed,
            unfilled=unfilled,
            duplicates=draft.duplicates,
            overlaps=overlaps,
            unseen=unseen_found,
            literals_left_out=draft.literals_left_out,
            ignored_files=draft.ignored,
        ),
    )


def read_triples(path: Path | str, columns: Columns | None = None) -> pa.Table:
    """The triples of one file as they are spelled, line by line: columns head, relation and tail."""
    path = Path(path)
    if not path.exists():
        raise InputError("there is no such file.", file=path, remedy="Check the path.")
    spelled, _, _ = _read_file(path, columns, keep_literals=True)
    blocks = (spelled.heads, spelled.relations, spelled.tails)
    return pa.table({name: pa.chunked_array(part, SPELLING) for name, part in zip(_ENDS, blocks, strict=True)})


def _read_folder(folder: Path, columns: Columns | None, keep_literals: bool) -> Draft:
    if is_openke(folder):
        entities, relations, splits = read_openke(folder)
        return Draft(entities, relations, splits, files={split: f"{split}2id.txt" for split in splits})
    sources = find_sources(folder)
    draft = _read_splits(sources.splits, columns, keep_literals)
    draft.ignored = sources.ignored
    for path, names in ((sources.entity_names, draft.entity_names), (sources.relation_names, draft.relation_names)):
        if path is not None:
            names.insert(0, read_names(path))
    return draft


def _read_splits(paths: Mapping[Split, Path], columns: Columns | None, keep_literals: bool) -> Draft:
    """The files of one or more splits, encoded together: they share the vocabularies."""
    spelled: dict[Split, SpelledTriples] = {}
    names: list[Names] = []
    literals_left_out = 0
    for split, path in paths.items():
        spelled[split], left_out, found = _read_file(path, columns, keep_literals)
        literals_left_out += left_out
        names += found
    entities, relations, triples = encode(list(spelled.values()))
    return Draft(
        entities,
        relations,
        dict(zip(spelled, triples, strict=True)),
        files={split: path.name for split, path in paths.items()},
        weights=spelled["train"].weights,
        entity_names=names,
        relation_names=list(names),
        literals_left_out=literals_left_out,
    )


def _read_file(path: Path, columns: Columns | None, keep_literals: bool) -> tuple[SpelledTriples, int, list[Names]]:
    """One file's triples, how many were left out for being literals, and the names that it gave instead."""
    if path.is_dir():
        raise InputError("is a folder where a file is needed.", file=path, remedy="Give the file inside it.")
    if ending(path) in RDF_ENDINGS:
        rdf = RdfFile(path, keep_literals)
        return rdf.triples, rdf.literals_left_out, [] if rdf.names is None else [rdf.names]
    if ending(path) in PARQUET_ENDINGS:
        return read_parquet(path, columns), 0, []
    if ending(path) in TEXT_ENDINGS:
        return read_text(path, columns), 0, []
    raise InputError(
        "its name does not say what kind of file it is.",
        file=path,
        remedy=f"Known endings are {' '.join(ENDINGS)}, text also with .gz.",
    )
