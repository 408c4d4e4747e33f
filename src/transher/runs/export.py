"""A run's embeddings, vocabulary, statistics and answers in the formats of other tools. Nothing is ever a pickle.

Every format is a folder, which appears only once it is whole. Rows are the raw ones of the tables, in the order of the
vocabulary; what a score function makes of them, as TranSHER divides an entity by its length, is left to the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from transher.answering.predicted import in_names
from transher.deadline import slices
from transher.errors import UsageError, nearest
from transher.files import replacing, write_safetensors, write_text
from transher.graph.graph import SIDES
from transher.graph.statistics import RELATION_TYPES, relation_types
from transher.graph.vocabulary import Vocabulary
from transher.runs.dataframes import row_identifiers
from transher.runs.folder import new_folder

if TYPE_CHECKING:
    from transher.runs.run import Run

Format = Literal["parquet", "numpy", "word2vec", "tensorboard", "safetensors"]
FORMATS: tuple[Format, ...] = get_args(Format)
_LINES = 10_000  # rows that are text at a time
_QUERIES = 256

Rows = NDArray[np.float32]


def export(run: Run, to: Format, out: str | Path, *, answers: int = 0) -> list[Path]:
    """Write the run into the folder `out`; gives the files. With `answers`, also the best so many answers to each test
    query, as Parquet."""
    if to not in FORMATS:
        raise UsageError(f"Unknown format {to!r}. {nearest(to, FORMATS) or 'There are ' + ', '.join(FORMATS) + '.'}")
    with new_folder(Path(out)) as filling:
        _WRITERS[to](run, filling)
        if answers:
            _write_table(filling / "answers.parquet", answers_table(run, answers))
    return sorted(Path(out).iterdir())


def _tables(run: Run) -> Iterator[tuple[str, Vocabulary, Rows]]:
    """Name, vocabulary and rows of entities and relations. With reciprocal relations the rows of r⁻¹ lie behind."""
    embeddings, _ = run.vectors("an export")
    yield "entities", run.graph.entities, embeddings.entity_weights.numpy()
    yield "relations", run.graph.relations, embeddings.relation_weights.numpy()


def _labels(vocabulary: Vocabulary, rows: Rows) -> list[str]:
    words = vocabulary.labels(np.arange(len(vocabulary)))
    return words + [f"{word}⁻¹" for word in words] if len(rows) > len(words) else words


def _parquet(run: Run, folder: Path) -> None:
    """Embeddings with the vocabulary, the triples in identifiers, and the statistics: for DuckDB, pandas, Polars."""
    for name, vocabulary, rows in _tables(run):
        columns = {
            "id": pa.array(np.arange(len(rows))),
            "identifier": pa.array(row_identifiers(vocabulary, len(rows))),
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
        words = [word.replace(" ", "_") for word in row_identifiers(vocabulary, len(rows))]
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
    write_safetensors(folder / "embeddings.safetensors", tables, {"model": run.vectors("an export")[1].model.name})
    for name, vocabulary, rows in _tables(run):
        _write_vocabulary(folder / f"{name}.tsv", vocabulary, rows)


def _texts(rows: Rows, separator: str) -> Iterator[str]:
    return (separator.join(map(repr, row)) for row in rows.astype(np.float64).round(8).tolist())


def _write_vocabulary(path: Path, vocabulary: Vocabulary, rows: Rows) -> None:
    """Two columns with a header, in the order of the rows."""
    lines = zip(row_identifiers(vocabulary, len(rows)), _labels(vocabulary, rows), strict=True)
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
    graph, frames = run.graph, []
    for side in SIDES:
        anchor, asked = (0, 2) if side == "tail" else (2, 0)
        for part in slices(len(graph.test), _QUERIES):
            triples = graph.test[part]
            found, offsets = run.answering.best(triples[:, anchor], triples[:, 1], side, count)
            query = np.repeat(np.arange(len(triples)), np.diff(offsets))
            names = in_names(graph, found)
            frame = names[["head_id", "relation_id", "tail_id", "score"]].set_axis(
                ["head", "relation", "tail", "score"], axis=1
            )
            frame.insert(0, "test_triple", part.start + query)
            frame.insert(1, "side", side)
            frame.insert(2, "rank", 1 + np.arange(len(found)) - offsets[query])
            frame["held_out"] = found.triples[:, asked] == triples[query, asked]
            frame["known"] = found.known
            if found.probabilities is not None:
                frame["probability"] = found.probabilities
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
