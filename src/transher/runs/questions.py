"""Questions in names, one or many: from a table with one empty cell per row to a table of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from transher.answering.answers import Answering, Question, WhatIsKnown
from transher.answering.predicted import Predicted, columns_in_names
from transher.deadline import slices
from transher.errors import UsageError, nearest
from transher.graph.frames import frame_columns, spelled
from transher.graph.words import is_missing
from transher.runs.scoring import COLUMNS, index_of, unknown_names

_TOGETHER = 1 << 10  # questions, so that the table of entities goes by once for many
_CANDIDATES = 1 << 20  # of all questions together: what bounds the memory
_LISTED = 5  # rows that an error names


def answer_table(
    answering: Answering,
    questions: pd.DataFrame | pa.Table | Sequence[Mapping[str, object]],
    top: int,
    known: WhatIsKnown,
    missing_share: float | None,
) -> pd.DataFrame:
    """The answers to each row's question, in the order of the rows. The column `question` has the row's index."""
    frame = _as_frame(questions)
    ids = _question_ids(answering, frame)
    table, counts = answer_ids(answering, ids, top, known, missing_share)
    table.insert(0, "question", frame.index.to_flat_index().repeat(counts))
    return table


def answer_ids(
    answering: Answering, ids: NDArray[np.int64], top: int, known: WhatIsKnown, missing_share: float | None
) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """The answers to n questions (n, 3), where −1 stands for what is asked: a table as of `in_names`, with the answers'
    own identifiers, and how many answers each question has (n,)."""
    tables, counts = [], [np.empty(0, dtype=np.int64)]
    size = max(1, min(_TOGETHER, _CANDIDATES // max(1, top)))
    for part in slices(len(ids), size):
        given = ([None if id < 0 else id for id in row] for row in ids[part].tolist())
        answers = answering.answer([Question(h, r, t, top, known, missing_share) for h, r, t in given])
        counts.append(np.array([len(found) for found in answers], dtype=np.int64))
        tables.append(_in_names(answering, answers, ids[part]))
    if not tables:
        tables.append(_in_names(answering, [Predicted.none(answering.judge is not None)], np.array([[0, 0, -1]])))
    return pd.concat(tables, ignore_index=True), np.concatenate(counts)


def _in_names(answering: Answering, answers: Sequence[Predicted], ids: NDArray[np.int64]) -> pd.DataFrame:
    """The answers to some questions, one below the other, each with ranks from 1."""
    ranks = np.concatenate([1 + np.arange(len(found)) for found in answers])
    columns = columns_in_names(answering.graph, answers[0].joined(*answers[1:]), ranks)
    asked = np.repeat((ids < 0).argmax(1), [len(found) for found in answers])
    words = [columns[f"{name}_id"] for name in COLUMNS]
    own = [words[column][row] for row, column in enumerate(asked.tolist())]
    first = ("rank", *COLUMNS)
    order = {name: columns.pop(name) for name in first} | {"identifier": own} | columns
    return pd.DataFrame(order)


def _as_frame(questions: pd.DataFrame | pa.Table | Sequence[Mapping[str, object]]) -> pd.DataFrame:
    if isinstance(questions, pd.DataFrame):
        frame = questions
    elif isinstance(questions, pa.Table):
        frame = questions.to_pandas()
    else:
        rows = list(questions)
        wrong = next((row for row in rows if not isinstance(row, Mapping)), None)
        if wrong is not None:
            raise UsageError(f"{wrong!r:.80} is not a question: give mappings with two of head, relation and tail.")
        frame = pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in COLUMNS})
        unread = sorted({str(key) for row in rows for key in row} - set(COLUMNS))
        if unread:
            raise UsageError(f"A question has no part {unread[0]!r}. {nearest(unread[0], COLUMNS)}".strip())
    if sum(name in frame.columns for name in COLUMNS) < 2:
        found = ", ".join(str(name) for name in frame.columns) or "none"
        raise UsageError(f"Questions need two of the columns head, relation and tail; these are {found}.")
    return frame


def _question_ids(answering: Answering, frame: pd.DataFrame) -> NDArray[np.int64]:
    """(n, 3), −1 where a cell is empty, which is one of each row."""
    words = []
    for name in COLUMNS:
        if name in frame.columns:
            place = [str(column) for column in frame.columns].index(name)
            words += spelled(frame_columns(frame, [place]), "the questions", [name])
        else:
            words.append(pa.nulls(len(frame), pa.string()))
    empty = np.stack([is_missing(column) for column in words], 1)
    wrong = np.flatnonzero(empty.sum(1) != 1)
    if len(wrong):
        rows = ", ".join(index_of(frame, row) for row in wrong[:_LISTED].tolist())
        raise UsageError(
            "Each question gives two of head, relation and tail, and the third is empty. It is not so at "
            f"{rows}{', …' if len(wrong) > _LISTED else '.'}"
        )
    ids = np.where(empty, -1, answering.graph.find_triples(words))
    bad = (ids < 0) & ~empty
    if bad.any():
        raise unknown_names(answering, words, bad, partial(index_of, frame))
    return ids
