"""Evaluating a split: by sampled ranking where the graph supplies candidates, by full ranking where it does not."""

from __future__ import annotations

import time
import typing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, NonNegativeInt, TypeAdapter
from typing_extensions import TypedDict

from transher.errors import UsageError
from transher.evaluation import metrics
from transher.evaluation.metrics import FigureTable, Metrics
from transher.evaluation.ranking import Answers, rank
from transher.evaluation.ranks import Progress, Ranks
from transher.evaluation.sampled import rank_among_candidates
from transher.graph.graph import Candidates, Graph, Side, Split, Triples
from transher.graph.statistics import RELATION_TYPES, relation_types
from transher.scorer import Scorer

Protocol = Literal["full", "sampled"]


class _Kept(TypedDict):
    """What `Evaluation.to_dict` gives, as it is read again."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    protocol: Protocol
    triples: NonNegativeInt
    seconds: float
    overall: FigureTable
    by_side: dict[Side, FigureTable]
    by_type: dict[Side, dict[str, FigureTable]]
    by_relation: dict[str, FigureTable]


KEPT_METRICS = TypeAdapter(_Kept)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The ranks of a split, what they come to, and what they cost. Breakdowns are made when they are asked for."""

    graph: Graph
    split: Split
    protocol: Protocol
    ranks: Ranks
    seconds: float

    def __repr__(self) -> str:
        return f"<Evaluation of {self.graph.name}, {self.split}, {self.protocol} ranking:\n {self.overall!r}>"

    @cached_property
    def overall(self) -> Metrics:
        return Metrics.of(self.ranks)

    @cached_property
    def by_side(self) -> dict[Side, Metrics]:
        return metrics.by_side(self.ranks)

    @cached_property
    def by_type(self) -> dict[Side, dict[str, Metrics]]:
        """By side, then by relation type: the paper's table."""
        return metrics.by_relation_type(self.ranks, relation_types(self.graph), RELATION_TYPES)

    @cached_property
    def by_relation(self) -> dict[int, Metrics]:
        return metrics.by_relation(self.ranks)

    @property
    def queries_per_second(self) -> float:
        return len(self.ranks) / max(self.seconds, 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; relations by their identifiers."""
        identifiers = self.graph.relations.identifiers
        return {
            "graph": self.graph.name,
            "split": self.split,
            "protocol": self.protocol,
            "triples": len(self.ranks) // 2,
            "seconds": self.seconds,
            "queries_per_second": self.queries_per_second,
            "overall": self.overall.to_dict(),
            "by_side": {side: part.to_dict() for side, part in self.by_side.items()},
            "by_type": {
                side: {name: part.to_dict() for name, part in row.items()} for side, row in self.by_type.items()
            },
            "by_relation": {identifiers[i].as_py(): part.to_dict() for i, part in self.by_relation.items()},
        }


def evaluate(
    scorer: Scorer,
    graph: Graph,
    split: Split = "test",
    progress: Progress | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> Evaluation:
    """Rank both sides of a split's triples, or of `sample` of them, which `seed` chooses once and for all."""
    start = time.perf_counter()
    protocol, ranks = rank_split(scorer, graph, split, progress, sample, seed)
    return Evaluation(graph, split, protocol, ranks, time.perf_counter() - start)


class Ranked(typing.Protocol):
    """A graph as ranking sees it: all of it, or what one worker has."""

    @property
    def name(self) -> str: ...
    @property
    def candidates(self) -> dict[Split, Candidates]: ...
    @property
    def known(self) -> Answers: ...
    def split(self, name: Split) -> Triples: ...


def rank_split(
    scorer: Scorer,
    graph: Ranked,
    split: Split,
    progress: Progress | None = None,
    sample: int | None = None,
    seed: int = 0,
) -> tuple[Protocol, Ranks]:
    """As `evaluate`, the ranks alone and by which protocol."""
    triples = graph.split(split)
    if not len(triples):
        raise UsageError(f"The graph '{graph.name}' has no {split} triples: there is nothing to evaluate.")
    chosen = _sample(len(triples), sample, seed)
    candidates = graph.candidates.get(split)
    protocol: Protocol
    if candidates is None:
        protocol, ranks = "full", rank(scorer, triples[chosen], graph.known, progress)
    else:
        own = Candidates(candidates.head[chosen], candidates.tail[chosen])
        protocol, ranks = "sampled", rank_among_candidates(scorer, triples[chosen], own, progress)
    return protocol, replace(ranks, triple=chosen[ranks.triple])


def _sample(count: int, sample: int | None, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Positions of the triples to rank, ascending."""
    if sample is None or sample >= count:
        return np.arange(count)
    if sample < 1:
        raise UsageError(f"A sample of {sample} triples cannot be evaluated: it takes at least one.")
    return np.sort(np.random.default_rng(seed).choice(count, sample, replace=False))
