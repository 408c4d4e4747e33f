"""Triples in names, many at a time: from tables to scores and probabilities, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from transher.answering.answers import Answering
from transher.deadline import slices
from transher.errors import UnknownNameError, UsageError
from transher.graph.columns import choose_columns
from transher.graph.frames import frame_columns, spelled
from transher.graph.options import ChosenColumns, ReadingOptions, option

Unknown = Literal["error", "skip", "null"]
COLUMNS = ("head", "relation", "tail")
ADDED = ("score", "probability")
_BLOCK = 1 << 16  # triples judged at a time: some 10 MB
_LISTED = 5  # further rows that an error names


@dataclass(frozen=True)
class Worth:
    """What n triples are worth. `meant`: (n,), whether all three names of a triple mean something. Scores (n,) and
    probabilities (n,), unless there is no calibration, are NaN where they do not."""

    meant: NDArray[np.bool_]
    scores: NDArray[np.float32]
    probabilities: NDArray[np.float64] | None


def score_frame(
    answering: Answering,
    frame: pd.DataFrame,
    columns: ChosenColumns | None,
    unknown: Unknown,
    missing_share: float | None,
) -> pd.DataFrame:
    """The DataFrame with its index and its columns, and with the score and the probability of each row's triple."""
    places = _triple_columns([str(name) for name in frame.columns], columns)
    words = spelled(frame_columns(frame, places), "the DataFrame", [str(frame.columns[place]) for place in places])
    worth = judge_words(answering, words, unknown, missing_share, partial(index_of, frame))
    kept = worth.meant if unknown == "skip" else np.ones(len(frame), dtype=np.bool_)
    added: dict[str, NDArray[np.floating]] = {"score": worth.scores[kept]}
    if worth.probabilities is not None:
        added["probability"] = worth.probabilities[kept]
    return (frame if kept.all() else frame.loc[kept]).assign(**added)


def score_blocks(
    answering: Answering,
    blocks: pa.Table | Iterable[pa.Table | pa.RecordBatch],
    columns: ChosenColumns | None,
    unknown: Unknown,
    missing_share: float | None,
) -> Iterator[pa.Table]:
    """Each block, or each part of a large one, with two columns more. Errors count rows over all blocks, from 1."""
    first = 0
    for block in _parts([blocks] if isinstance(blocks, pa.Table) else blocks):
        places = _triple_columns(block.column_names, columns)
        parts = [block.column(place).combine_chunks() for place in places]
        words = spelled(parts, "the table", [block.column_names[place] for place in places])
        worth = judge_words(answering, words, unknown, missing_share, partial(_counted, first))
        first += len(block)
        missing = ~worth.meant
        scored = block.append_column("score", pa.array(worth.scores, mask=missing))
        if worth.probabilities is not None:
            scored = scored.append_column("probability", pa.array(worth.probabilities, mask=missing))
        yield scored.filter(pa.array(worth.meant)) if unknown == "skip" else scored


def as_frame(triples: pd.DataFrame | pa.Table | Iterable[Sequence[object]]) -> pd.DataFrame:
    """Triples in any form as a DataFrame; those without names of columns get head, relation and tail."""
    if isinstance(triples, pd.DataFrame):
        return triples
    if isinstance(triples, pa.Table):
        frame: pd.DataFrame = triples.to_pandas()
        return frame
    rows = [tuple(row) for row in triples]
    wrong = next((place for place, row in enumerate(rows) if len(row) != 3), None)
    if wrong is not None:
        raise UsageError(f"{rows[wrong]!r:.80}, at position {wrong}, is not a triple (head, relation, tail).")
    return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)


def index_of(frame: pd.DataFrame, row: int) -> str:
    """How an error names a row of a DataFrame."""
    return f"index {frame.index[[row]].tolist()[0]!r}"


def unknown_names(
    answering: Answering,
    words: Sequence[pa.Array],
    bad: NDArray[np.bool_],
    row_name: Callable[[int], str],
    remedy: str = "",
) -> UnknownNameError:
    """The error for rows with a name that means nothing or several things. words: three columns; bad: (n, 3),
    where such names are."""
    rows = np.flatnonzero(bad.any(1)).tolist()
    column = int(bad[rows[0]].argmax())
    reason, suggestions = f"the {COLUMNS[column]} is missing.", []
    word = words[column][rows[0]].as_py()
    if word is not None and word.strip():
        vocabulary = answering.graph.relations if column == 1 else answering.graph.entities
        try:
            vocabulary.find(word)
        except UnknownNameError as error:
            reason, suggestions = str(error), error.suggestions
    others = ", ".join(row_name(row) for row in rows[1 : 1 + _LISTED])
    rest = f"{others}{', …' if len(rows) > 1 + _LISTED else '.'}"
    more = f" {len(rows) - 1:,} more such rows: {rest}" if others else ""
    return UnknownNameError(f"{row_name(rows[0])}: {reason}{more}{remedy and ' '}{remedy}", suggestions)


def judge_words(
    answering: Answering,
    words: Sequence[pa.Array],
    unknown: Unknown,
    missing_share: float | None,
    row_name: Callable[[int], str],
) -> Worth:
    """What the triples in three columns of words are worth. `row_name` says how an error names a row."""
    if unknown not in ("error", "skip", "null"):
        raise UsageError(f"unknown={unknown!r}: it is 'error', 'skip' or 'null'.")
    ids = answering.graph.find_triples(words)
    meant = np.asarray((ids >= 0).all(1))
    if unknown == "error" and not meant.all():
        remedy = f"{option('unknown', 'skip')} leaves such rows out; with null they have no score."
        raise unknown_names(answering, words, ids < 0, row_name, remedy)
    scores = np.full(len(ids), np.nan, dtype=np.float32)
    probabilities = None if answering.judge is None else np.full(len(ids), np.nan)
    for part in slices(len(ids), _BLOCK):
        places = part.start + np.flatnonzero(meant[part])
        judged = answering.judged(ids[places], missing_share)
        scores[places] = judged.scores
        if probabilities is not None and judged.probabilities is not None:
            probabilities[places] = judged.probabilities
    return Worth(meant, scores, probabilities)


def _triple_columns(names: Sequence[str], columns: ChosenColumns | None) -> tuple[int, ...]:
    """Where head, relation and tail stand, as `load_graph` finds them."""
    taken = [name for name in ADDED if name in names]
    if taken:
        raise UsageError(f"The table has a column {taken[0]!r} already: rename it, or leave it out.")
    places, _ = choose_columns(names, ReadingOptions(columns=columns, header="yes"), "the table", None)
    return places[:3]


def _counted(first: int, row: int) -> str:
    return f"row {first + row + 1:,}"


def _parts(blocks: Iterable[pa.Table | pa.RecordBatch]) -> Iterator[pa.Table]:
    for block in blocks:
        table = block if isinstance(block, pa.Table) else pa.Table.from_batches([block])
        yield from (table.slice(part.start, part.stop - part.start) for part in slices(len(table), _BLOCK))
