"""A graph from whatever form its triples come in: files are read, objects are taken, and both are tidied in one way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from transher.errors import InputError
from transher.graph.content import Content
from transher.graph.draft import Draft
from transher.graph.encoding import SPELLING, encode
from transher.graph.faults import BadRows
from transher.graph.frames import read_object, read_parquet
from transher.graph.graph import SPLITS, Graph, Split
from transher.graph.jsonl import read_jsonl
from transher.graph.names import named_vocabulary, names_from, read_names
from transher.graph.openke import is_openke, read_openke
from transher.graph.options import (
    JSON_ENDINGS,
    PARQUET_ENDINGS,
    RDF_ENDINGS,
    TEXT_ENDINGS,
    ChosenColumns,
    ReadingOptions,
)
from transher.graph.rdf import read_rdf
from transher.graph.report import LoadReport
from transher.graph.sources import find_sources
from transher.graph.streams import Source, source_of
from transher.graph.tables import read_text

_ENDS = ("head", "relation", "tail")
_READERS: dict[tuple[str, ...], Callable[[Source, ReadingOptions], Content]] = {
    TEXT_ENDINGS: read_text,
    JSON_ENDINGS: read_jsonl,
    PARQUET_ENDINGS: read_parquet,
    RDF_ENDINGS: read_rdf,
}


def read_graph(path: Path | str, options: ReadingOptions | None = None) -> Graph:
    """The graph in `path`: one file of triples, or a folder with train, valid and test, a folder of parts, or an OpenKE
    folder. What was odd about them is in the graph's `load_report`. `load_graph` has the options one by one."""
    path, options = Path(path), options or ReadingOptions()
    if not path.exists():
        raise InputError("there is no such file or folder.", file=path, remedy="Check the path.")
    draft = _read_folder(path, options) if path.is_dir() else _read_splits({"train": [path]}, options)
    return _tidied(draft, options, path.name if path.is_dir() else path.name.split(".")[0])


def graph_of(triples: object, weights: object, options: ReadingOptions) -> Graph:
    """The graph of a DataFrame, an Arrow table, an array (n, 3) or an iterable of triples."""
    return _tidied(_draft({"train": read_object(triples, weights, options)}, files={}), options, "graph")


def read_triples(source: object, columns: ChosenColumns | None = None) -> pa.Table:
    """The triples of one file, or in any form that `load_graph` takes in Python, as they are spelled, row by row:
    columns head, relation and tail."""
    options = ReadingOptions(columns=columns, literals="keep")
    spelled = (
        _read_file(Path(source), options) if isinstance(source, str | Path) else read_object(source, None, options)
    ).triples
    blocks = (spelled.heads, spelled.relations, spelled.tails)
    return pa.table({name: pa.chunked_array(part, SPELLING) for name, part in zip(_ENDS, blocks, strict=True)})


def _tidied(draft: Draft, options: ReadingOptions, name: str) -> Graph:
    """The graph of a draft: without duplicates, in three splits, with names and a report of what was found."""
    for given, names, kind in (
        (options.entity_names, draft.entity_names, "entity_names"),
        (options.relation_names, draft.relation_names, "relation_names"),
    ):
        if given is not None:
            names.insert(0, names_from(given, kind))
    draft.remove_duplicates()
    split_by_seed: int | None = None
    unfilled: tuple[Split, ...] = ()
    if list(draft.splits) == ["train"]:
        split_by_seed = options.seed
        draft.split(options.seed, options.fractions, options.keep_inverse_leaks)
        shares = dict(zip(SPLITS, options.fractions, strict=True))
        unfilled = tuple(split for split in SPLITS if shares[split] and not len(draft.splits[split]))
    overlaps = draft.overlaps()
    unseen = draft.handle_unseen(drop=options.unseen == "drop")
    bad_rows = BadRows()
    for content in draft.contents:
        bad_rows.extend(content.bad_rows)
    none = np.empty((0, 3), dtype=np.int32)
    return Graph(
        name=options.name or name,
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
            unseen=unseen,
            literals_left_out=sum(content.literals_left_out for content in draft.contents),
            trimmed=sum(content.triples.trimmed for content in draft.contents),
            bad_rows=bad_rows.count,
            bad_row_examples=tuple(bad_rows.examples),
            headers=tuple(told for content in draft.contents for told in content.headers),
            ignored_files=draft.ignored,
        ),
    )


def _read_folder(folder: Path, options: ReadingOptions) -> Draft:
    if is_openke(folder):
        entities, relations, splits = read_openke(folder)
        return Draft(entities, relations, splits, files={split: f"{split}2id.txt" for split in splits})
    sources = find_sources(folder)
    draft = _read_splits(sources.splits, options)
    draft.ignored = sources.ignored
    for path, names in ((sources.entity_names, draft.entity_names), (sources.relation_names, draft.relation_names)):
        if path is not None:
            names.insert(0, read_names(path))
    return draft


def _read_splits(paths: Mapping[Split, Sequence[Path]], options: ReadingOptions) -> Draft:
    contents = {split: _read_parts(files, options) for split, files in paths.items()}
    files: dict[str, str] = {
        split: parts[0].name if len(parts) == 1 else f"{parts[0].name} … {parts[-1].name} ({len(parts):,} files)"
        for split, parts in paths.items()
    }
    return _draft(contents, files)


def _read_parts(paths: Sequence[Path], options: ReadingOptions) -> Content:
    content = _read_file(paths[0], options)
    for path in paths[1:]:
        part = _read_file(path, options)
        if (part.triples.weights is None) != (content.triples.weights is None):
            which = "no weights" if part.triples.weights is None else "weights"
            raise InputError(
                f"has {which}, in contrast to {paths[0].name}.", file=path, remedy="Give all parts the same columns."
            )
        content.extend(part)
    return content


def _draft(contents: Mapping[Split, Content], files: dict[str, str]) -> Draft:
    """The contents of one or more splits, encoded together: they share the vocabularies."""
    entities, relations, triples = encode([content.triples for content in contents.values()])
    names = [found for content in contents.values() for found in content.names]
    return Draft(
        entities,
        relations,
        dict(zip(contents, triples, strict=True)),
        files,
        weights=contents["train"].triples.weights,
        entity_names=names,
        relation_names=list(names),
        contents=list(contents.values()),
    )


def _read_file(path: Path, options: ReadingOptions) -> Content:
    source = source_of(path, options)
    read = next(reader for endings, reader in _READERS.items() if source.form in endings)
    return read(source, options)
