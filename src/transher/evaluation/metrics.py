"""Metrics: ranks in a few figures, overall, by side, by relation type and by relation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from transher.errors import UsageError
from transher.evaluation.bootstrap import RESAMPLES, percentile_interval, resampled_means
from transher.evaluation.ranks import Ranks
from transher.graph.graph import SIDES, Side

HITS = (1, 3, 10)

# What `Metrics.to_dict` gives.
FigureTable = TypedDict(
    "FigureTable",
    {
        "count": NonNegativeInt,
        "mrr": float,
        "mr": float,
        "hits@1": float,
        "hits@3": float,
        "hits@10": float,
        "mrr_optimistic": float,
        "mrr_pessimistic": float,
        "tied": float,
        "intervals": dict[str, list[float]],
    },
)


@dataclass(frozen=True, repr=False)
class Metrics:
    """Figures from realistic ranks over `count` queries, with 95 % bootstrap intervals by the names of `to_dict`."""

    count: int
    mrr: float
    mr: float
    hits_at_1: float
    hits_at_3: float
    hits_at_10: float
    mrr_optimistic: float
    mrr_pessimistic: float
    tied: float  # share of queries whose answer ties with another candidate
    intervals: dict[str, tuple[float, float]]

    def __repr__(self) -> str:
        figures = f"MRR {self.mrr:.4f}, MR {self.mr:.1f}, Hits@1 {self.hits_at_1:.4f}, Hits@3 {self.hits_at_3:.4f}"
        return f"<Metrics of {self.count:,} queries: {figures}, Hits@10 {self.hits_at_10:.4f}>"

    @classmethod
    def of(cls, ranks: Ranks, resamples: int = RESAMPLES, seed: int = 0) -> Metrics:
        """With `resamples` = 0 no intervals are made."""
        if not len(ranks):
            raise UsageError("There are no ranks to take metrics of: no triple was evaluated.")
        realistic = ranks.realistic
        values = {
            "mrr": 1 / realistic,
            "mr": realistic,
            **{f"hits@{n}": (realistic <= n).astype(np.float64) for n in HITS},
        }
        intervals: dict[str, tuple[float, float]] = {}
        if resamples:
            means = resampled_means(np.stack(list(values.values()), axis=1), ranks.triple, resamples, seed)
            intervals = dict(zip(values, percentile_interval(means), strict=True))
        figures = {name: float(column.mean()) for name, column in values.items()}
        return cls(
            count=len(ranks),
            mrr=figures["mrr"],
            mr=figures["mr"],
            hits_at_1=figures["hits@1"],
            hits_at_3=figures["hits@3"],
            hits_at_10=figures["hits@10"],
            mrr_optimistic=float((1 / ranks.optimistic).mean()),
            mrr_pessimistic=float((1 / ranks.pessimistic).mean()),
            tied=float(ranks.tied.mean()),
            intervals=intervals,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "mrr": self.mrr,
            "mr": self.mr,
            "hits@1": self.hits_at_1,
            "hits@3": self.hits_at_3,
            "hits@10": self.hits_at_10,
            "mrr_optimistic": self.mrr_optimistic,
            "mrr_pessimistic": self.mrr_pessimistic,
            "tied": self.tied,
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
        }


def by_side(ranks: Ranks) -> dict[Side, Metrics]:
    return {SIDES[code]: Metrics.of(part) for code, part in _groups(ranks, ranks.side)}


def by_relation_type(
    ranks: Ranks, type_of_relation: NDArray[np.integer[Any]], names: tuple[str, ...]
) -> dict[Side, dict[str, Metrics]]:
    """The paper's table: for either side, metrics by the type of the relation. `type_of_relation`: (relations,), each
    a position in `names`. A type that no query has is left out."""
    types = type_of_relation[ranks.triples[:, 1]]
    return {
        SIDES[side]: {names[code]: Metrics.of(cell) for code, cell in _groups(part, types[ranks.side == side])}
        for side, part in _groups(ranks, ranks.side)
    }


def by_relation(ranks: Ranks) -> dict[int, Metrics]:
    """Metrics by the relation's id; relations without a query are left out."""
    return {relation: Metrics.of(part) for relation, part in _groups(ranks, ranks.triples[:, 1])}


def _groups(ranks: Ranks, keys: NDArray[np.integer[Any]]) -> Iterator[tuple[int, Ranks]]:
    """Ranks apart by `keys` (q,), in ascending order, each group in the order that it had."""
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    for key, group in zip(distinct.tolist(), np.split(order, starts[1:]), strict=True):
        yield key, ranks.take(group)
