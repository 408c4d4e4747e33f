"""A run's embeddings, vocabulary, statistics and answers in the formats of other tools. Nothing is ever a pickle.

Every format is a folder, which appears only once it is whole. Rows are the raw ones of the tables, in the order of the
vocabulary; what a score function makes of them, as TranSHER divides an entity by its length, is left to the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from transher.deadline import slices
from transher.files import replacing, write_safetensors, write_text
from transher.graph.graph import SIDES
from transher.graph.statistics import RELATION_TYPES, relation_types
from transher.graph.vocabulary import Vocabulary
from transher.runs.folder import new_folder
from transher.runs.run import Run

Format = Literal["parquet", "numpy", "word2vec", "tensorboard", "safetensors"]
FORMATS: tuple[Format, ...] = get_args(Format)
_LINES = 10_000  # rows that are text at a time
_QUERIES = 256

Rows = NDArray[np.float32]


def export(run: Run, to: Format, out: str | Path, *, answers: int = 0) -> list[Path]:
    """Write the run into the folder `out`; gives the files. With `answers`, also the best so many answers to each test
    query, as Parquet."""
    with new_folder(Path(out)) as filling:
        _WRITERS[to](run, filling)
        if answers:
            _write_table(filling / "answers.parquet", answers_table(run, answers))
    return sorted(Path(out).iterdir())


def _tables(run: Run) -> Iterator[tuple[str, Vocabulary, Rows]]:
    """Name, vocabulary and rows of entities and relations. With reciprocal relations the rows of r⁻¹ lie behind."""
    yield "entities", run.graph.entities, run.scorer.entity_weights.numpy()
    yield "relations", run.graph.relations, run.scorer.relation_weights.numpy()


def _identifiers(vocabulary: Vocabulary, rows: Rows) -> list[str]:
    words = list(vocabulary.identifiers.to_pylist())
    return words + [f"{word}⁻¹" for word in words] if len(rows) > len(words) else words


def _labels(vocabulary: Vocabulary, rows: Rows) -> list[str]:
    words = vocabulary.labels(np.arange(len(vocabulary)))
    return words + [f"{word}⁻¹" for word in words] if len(rows) > len(words) else words


def _parquet(run: Run, folder: Path) -> None:
    """Embeddings with the vocabulary, the triples in identifiers, and the statistics: for DuckDB, pandas, Polars."""
    for name, vocabulary, rows in _tables(run):
        columns = {
            "id": pa.array(np.arange(len(rows))),
            "identifier": pa.array(_identifiers(vocabulary, rows)),
            "label": pa.array(_labels(vocabulary, rows)),
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1]),
        }
        _write_table(folder / f"{name}.parquet", pa.table(columns))
    _write_table(folder / "triples.parquet", _triples(run))
    entities, relations = statistics_tables(run)
    _write_table(folder / "entity_statistics.parquet", entities)
    _write_table(folder / "relation_statistics.parquet", relations)


def _numpy(run: Run, folder: Path) -> None:
    for name, vocabulary, rows in _tables(run):
        with replacing(folder / f"{name}.npy") as file:
            np.save(file, rows, allow_pickle=False)
        _write_vocabulary(folder / f"{name}.tsv", vocabulary, rows)


def _word2vec(run: Run, folder: Path) -> None:
    """Text as gensim's `KeyedVectors.load_word2vec_format` reads it; spaces in identifiers become underscores."""
    for name, vocabulary, rows in _tables(run):
        words = [word.replace(" ", "_") for word in _identifiers(vocabulary, rows)]
        with replacing(folder / f"{name}.txt") as file:
            file.write(f"{len(rows)} {rows.shape[1]}\n".encode())
            for part in slices(len(rows), _LINES):
                lines = zip(words[part], _texts(rows[part], " "), strict=True)
                file.write("".join(f"{word} {numbers}\n" for word, numbers in lines).encode())


def _tensorboard(run: Run, folder: Path) -> None:
    """Vectors and labels for the embedding projector, by `tensorboard --logdir` or projector.tensorflow.org."""
    config = []
    for name, vocabulary, rows in _tables(run):
        with replacing(folder / f"{name}.tsv") as file:
            for part in slices(len(rows), _LINES):
                file.write("".join(f"{numbers}\n" for numbers in _texts(rows[part], "\t")).encode())
        _write_vocabulary(folder / f"{name}_labels.tsv", vocabulary, rows)
        config.append(
            f'embeddings {{\n  tensor_name: "{name}"\n  tensor_path: "{name}.tsv"\n'
            f'  metadata_path: "{name}_labels.tsv"\n}}\n'
        )
    write_text(folder / "projector_config.pbtxt", "".join(config))


def _safetensors(run: Run, folder: Path) -> None:
    tables = {name: rows for name, _, rows in _tables(run)}
    write_safetensors(folder / "embeddings.safetensors", tables, {"model": run.recipe.model.name})
    for name, vocabulary, rows in _tables(run):
        _write_vocabulary(folder / f"{name}.tsv", vocabulary, rows)


def _texts(rows: Rows, separator: str) -> Iterator[str]:
    return (separator.join(map(repr, row)) for row in rows.astype(np.float64).round(8).tolist())


def _write_vocabulary(path: Path, vocabulary: Vocabulary, rows: Rows) -> None:
    """Two columns with a header, in the order of the rows."""
    lines = zip(_identifiers(vocabulary, rows), _labels(vocabulary, rows), strict=True)
    write_text(path, "identifier\tlabel\n" + "".join(f"{_line(one)}\t{_line(other)}\n" for one, other in lines))


def _line(text: str) -> str:
    """Whatever would end a column or a line as a space."""
    return " ".join(text.split()) if any(mark in text for mark in "\t\r\n") else text


def _triples(run: Run) -> pa.Table:
    graph = run.graph
    heads, relations, tails = graph.all_triples.T
    splits = np.repeat(["train", "valid", "test"], [len(graph.train), len(graph.valid), len(graph.test)])
    return pa.table(
        {
            "head": graph.entities.identifiers.take(pa.array(heads)),
            "relation": graph.relations.identifiers.take(pa.array(relations)),
            "tail": graph.entities.identifiers.take(pa.array(tails)),
            "split": pa.array(splits).dictionary_encode(),
        }
    )


def statistics_tables(run: Run) -> tuple[pa.Table, pa.Table]:
    """What the graph is made of: a row per entity (how often it is a head and a tail), and one per relation."""
    graph = run.graph
    heads, relations, tails = graph.all_triples.T
    sizes = len(graph.entities), len(graph.relations)
    entities = pa.table(
        {
            "identifier": graph.entities.identifiers,
            "label": graph.entities.labels(np.arange(sizes[0])),
            "as_head": np.bincount(heads, minlength=sizes[0]),
            "as_tail": np.bincount(tails, minlength=sizes[0]),
        }
    )
    ends = pd.DataFrame({"relation": relations, "head": heads, "tail": tails}).groupby("relation")
    distinct = ends.nunique().reindex(range(sizes[1]), fill_value=0)
    table = pa.table(
        {
            "identifier": graph.relations.identifiers,
            "label": graph.relations.labels(np.arange(sizes[1])),
            "type": [RELATION_TYPES[code] for code in relation_types(graph)],
            "triples": np.bincount(relations, minlength=sizes[1]),
            "heads": distinct["head"].to_numpy(),
            "tails": distinct["tail"].to_numpy(),
        }
    )
    return entities, table


def answers_table(run: Run, count: int) -> pa.Table:
    """The best `count` answers to both queries of each test triple: the query in identifiers, the side asked for, the
    answer's rank, score and probability, and whether it is the one that was held out, or else known."""
    graph, count = run.graph, min(count, len(run.graph.entities))
    known = {tuple(triple) for triple in graph.all_triples.tolist()}
    frames = []
    for side in SIDES:
        anchor, asked = (0, 2) if side == "tail" else (2, 0)
        for part in slices(len(graph.test), _QUERIES):
            triples = graph.test[part]
            ids = torch.from_numpy(triples.astype(np.int64))
            scores, found = run.scorer.best(ids[:, anchor], ids[:, 1], side, count)
            answered = np.repeat(triples, count, axis=0)
            held_out = answered[:, asked].copy()
            answered[:, asked] = found.reshape(-1).numpy()
            frame = pd.DataFrame(
                {
                    "test_triple": np.repeat(np.arange(part.start, part.stop), count),
                    "side": side,
                    "rank": np.tile(np.arange(1, count + 1), len(triples)),
                    "head": graph.entities.identifiers.take(pa.array(answered[:, 0])).to_pylist(),
                    "relation": graph.relations.identifiers.take(pa.array(answered[:, 1])).to_pylist(),
                    "tail": graph.entities.identifiers.take(pa.array(answered[:, 2])).to_pylist(),
                    "score": scores.reshape(-1).numpy(),
                    "held_out": answered[:, asked] == held_out,
                    "known": [tuple(triple) in known for triple in answered.tolist()],
                }
            )
            if run.calibration is not None:
                frame["probability"] = run.calibration.probabilities(frame["score"], answered[:, 1], side)
            frames.append(frame)
    return pa.Table.from_pandas(pd.concat(frames) if frames else pd.DataFrame(), preserve_index=False)


def _write_table(path: Path, table: pa.Table) -> None:
    with replacing(path) as file:
        pq.write_table(table, file, compression="zstd")


_WRITERS: dict[Format, Callable[[Run, Path], None]] = {
    "parquet": _parquet,
    "numpy": _numpy,
    "word2vec": _word2vec,
    "tensorboard": _tensorboard,
    "safetensors": _safetensors,
}
