"""Predicted triples: by ids with scores and probabilities, and in names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit

from transher.graph.graph import Graph, Triples


@dataclass(frozen=True)
class Predicted:
    """n triples (n, 3) with their scores (n,), the logarithms of their odds (n,), unless there is no calibration, and
    whether the graph has them (n,)."""

    triples: Triples
    scores: NDArray[np.float32]
    log_odds: NDArray[np.float64] | None
    known: NDArray[np.bool_]

    @classmethod
    def none(cls, judged: bool = True) -> Predicted:
        nothing = np.empty(0)
        return cls(np.empty((0, 3), np.int32), nothing.astype(np.float32), nothing if judged else None, nothing > 0)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def probabilities(self) -> NDArray[np.float64] | None:
        return None if self.log_odds is None else np.asarray(expit(self.log_odds), dtype=np.float64)

    @property
    def worth(self) -> NDArray[np.floating]:
        """What triples of different relations are compared by: the log odds, or the score where there are none."""
        return self.scores if self.log_odds is None else self.log_odds

    def take(self, chosen: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Predicted:
        """Some of them, by positions, by a mask or by a slice."""
        log_odds = None if self.log_odds is None else self.log_odds[chosen]
        return Predicted(self.triples[chosen], self.scores[chosen], log_odds, self.known[chosen])

    def joined(self, *others: Predicted) -> Predicted:
        parts = (self, *others)
        odds = [part.log_odds for part in parts if part.log_odds is not None]
        return Predicted(
            np.concatenate([part.triples for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate(odds) if len(odds) == len(parts) else None,
            np.concatenate([part.known for part in parts]),
        )

    def ordered(self) -> Predicted:
        """The most probable first; of equally probable ones by relation, head and tail."""
        heads, relations, tails = self.triples.T
        return self.take(np.lexsort((tails, heads, relations, -self.worth)))

    def best(self, count: int) -> Predicted:
        """The first `count` of `ordered`, in any order."""
        if len(self) <= count:
            return self
        worth = self.worth
        least = -np.partition(-worth, count - 1)[count - 1]
        better, equal = np.flatnonzero(worth > least), np.flatnonzero(worth == least)
        heads, relations, tails = self.triples[equal].T
        equal = equal[np.lexsort((tails, heads, relations))]
        return self.take(np.concatenate([better, equal[: count - len(better)]]))


def in_names(graph: Graph, predicted: Predicted, first_rank: int = 1) -> pd.DataFrame:
    """A row for each triple, in the order that they have, with the columns of `columns_in_names`."""
    return pd.DataFrame(columns_in_names(graph, predicted, np.arange(first_rank, first_rank + len(predicted))))


def columns_in_names(
    graph: Graph, predicted: Predicted, ranks: NDArray[np.integer]
) -> dict[str, list[str] | NDArray[np.generic]]:
    """Of n triples: rank, head, relation, tail (labels), head_id, relation_id, tail_id (identifiers), score,
    probability (where there is one), known."""
    heads, relations, tails = predicted.triples.T
    entities = graph.entities
    columns: dict[str, list[str] | NDArray[np.generic]] = {
        "rank": ranks,
        "head": entities.labels(heads),
        "relation": graph.relations.labels(relations),
        "tail": entities.labels(tails),
        "head_id": entities.identifiers.take(pa.array(heads)).to_pylist(),
        "relation_id": graph.relations.identifiers.take(pa.array(relations)).to_pylist(),
        "tail_id": entities.identifiers.take(pa.array(tails)).to_pylist(),
        "score": predicted.scores,
    }
    if predicted.probabilities is not None:
        columns["probability"] = predicted.probabilities
    columns["known"] = predicted.known
    return columns
