"""The backtest: what a run said of facts that came true later, beside what chance and popularity would have said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transher.answering.answers import Answering
from transher.answering.missing import Search, relation_ids, wanted_facts
from transher.answering.predicted import Predicted
from transher.answering.trials import BEST, Promise, hits, probabilities_of
from transher.errors import UsageError
from transher.evaluation.ranking import rank
from transher.evaluation.ranks import Progress
from transher.graph.graph import Graph, Triples
from transher.graph.implied import Implied
from transher.graph.known import KnownTriples

FREQUENT = 50  # tails that a ranking by frequency alone names first
_DEPTH = 10  # times as many facts are searched as are shown: for rare tails, and for facts about chosen entities

Ids = NDArray[np.integer]


@dataclass(frozen=True)
class Came:
    """Of so many facts, the mean probability, and the shares that came true: of the best by the judge, of those with
    the most frequent tails, and of any that fit."""

    facts: int
    probability: float
    judge: float
    popularity: float
    chance: float


@dataclass(frozen=True)
class Backtest:
    """What a run said of facts that came true later."""

    graph: str
    later: int
    left_out: int  # later facts that the graph has, or whose names it lacks
    best: list[Came]
    rare: list[Came]  # the same, without the facts of the most frequent tails
    frequent: int  # how many tails these are
    mrr: float  # of the later facts among all entities, filtered
    median_rank: float
    promised: float  # how many of the best 10,000 were expected to hold
    came: int  # how many of them came true
    tenths: list[Promise]  # of the best 10,000, by tenths of the probability

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def backtest(
    answering: Answering,
    later: Triples,
    *,
    left_out: int = 0,
    about: Ids | None = None,
    implied_by: Sequence[str] = (),
    progress: Progress | None = None,
) -> Backtest:
    """Try a run on facts (n, 3) that came later.

    left_out: facts of the same source that are not among them.
    about: the entities whose later facts are all given. Facts without any of them are not looked at.
    implied_by: relations along which facts follow from known ones (`transher.graph.implied`), where the later facts
        lack those. They are not looked at.
    """
    graph = answering.graph
    if answering.judge is None:
        raise UsageError(f"The graph '{graph.name}' has no validation triples, so its facts have no probabilities.")
    new = np.unique(later[~graph.known.has(later)], axis=0).astype(np.int32).reshape(-1, 3)
    if about is not None:
        new = new[_is_about(new, about)]
    implied = Implied(graph.known, relation_ids(graph, implied_by)) if implied_by else None
    if implied is not None:
        new = new[~implied.has(new)]
    if not len(new):
        raise UsageError("There are no later facts that the graph lacks and whose names it has: nothing can be tried.")
    relations = graph.relations.identifiers.take(np.unique(new[:, 1])).to_pylist()
    wanted = wanted_facts(graph, relations, best=_DEPTH * max(BEST), implied_by=implied_by)
    facts = Search(answering, wanted).facts(progress)
    if about is not None:
        facts = facts.take(_is_about(facts.triples, about))
    everything = KnownTriples(np.concatenate([graph.all_triples, new]), len(graph.entities), len(graph.relations))
    ranks = rank(answering.scorer, new, everything).realistic
    popular = _popularity(graph, new, about, implied)
    frequent = np.argsort(-graph.known.answers("head").counts(popular.tails, popular.relations), kind="stable")
    common = np.stack([popular.relations, popular.tails], 1)[frequent[:FREQUENT]]
    shown = facts.take(slice(max(BEST)))
    promised, held = probabilities_of(shown), hits(graph, shown, new)
    tenth = np.minimum((promised * 10).astype(np.int64), 9)
    return Backtest(
        graph=graph.name,
        later=len(new),
        left_out=left_out + len(later) - len(new),
        best=_came(graph, facts, new, popular),
        rare=_came(graph, facts.take(~_has_tail(facts.triples, common)), new, popular.without(common)),
        frequent=FREQUENT,
        mrr=float((1 / ranks).mean()),
        median_rank=float(np.median(ranks)),
        promised=float(promised.sum()),
        came=int(held.sum()),
        tenths=[Promise.of(promised[tenth == each], held[tenth == each]) for each in range(10)],
    )


class _Popularity:
    """Relations and tails (n,), the most frequent tail first, with how many pairs (n,) of each fit and are not known,
    and how many of these came true (n,)."""

    def __init__(self, relations: Ids, tails: Ids, pairs: Ids, came: Ids) -> None:
        self.relations, self.tails, self.pairs, self.came = relations, tails, pairs, came

    def without(self, common: Ids) -> _Popularity:
        kept = ~_has_tail(np.stack([self.tails, self.relations, self.tails], 1), common)
        return _Popularity(self.relations[kept], self.tails[kept], self.pairs[kept], self.came[kept])

    def share(self, count: int) -> float:
        """Which share of the first `count` facts is expected to come true, heads of one tail in any order."""
        taken = np.clip(count - (np.cumsum(self.pairs) - self.pairs), 0, self.pairs)
        rate = self.came / np.maximum(self.pairs, 1)
        return float((taken * rate).sum() / max(1, taken.sum()))

    @property
    def chance(self) -> float:
        return float(self.came.sum() / max(1, self.pairs.sum()))


def _popularity(graph: Graph, new: Triples, about: Ids | None, implied: Implied | None) -> _Popularity:
    known, ends = graph.known, graph.ends
    columns: list[tuple[Ids, ...]] = []
    for relation in np.unique(new[:, 1]).tolist():
        heads, tails = ends.eligible(relation), ends.eligible(known.end(relation, "tail"))
        if about is not None:
            heads = heads[np.isin(heads, about)]
        own = new[new[:, 1] == relation]
        offsets, of_tail = known.answers("head").of(tails, np.full(len(tails), relation))
        taken = np.bincount(
            np.repeat(np.arange(len(tails)), np.diff(offsets))[np.isin(of_tail, heads)], minlength=len(tails)
        )
        if implied is not None:
            taken += implied.counts(heads, relation)[tails]
        came = np.bincount(np.searchsorted(tails, own[np.isin(own[:, 2], tails), 2]), minlength=len(tails))
        columns.append((np.full(len(tails), relation), tails, len(heads) - taken, came, np.diff(offsets)))
    relations, tails, pairs, came, uses = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(-uses, kind="stable")
    return _Popularity(relations[order], tails[order], pairs[order], came[order])


def _came(graph: Graph, facts: Predicted, new: Triples, popular: _Popularity) -> list[Came]:
    promised, held = probabilities_of(facts), hits(graph, facts, new)
    return [
        Came(
            min(count, len(facts)),
            float(promised[:count].mean()) if len(facts) else 0.0,
            float(held[:count].mean()) if len(facts) else 0.0,
            popular.share(count),
            popular.chance,
        )
        for count in BEST
    ]


def _is_about(triples: Ids, about: Ids) -> NDArray[np.bool_]:
    return np.isin(triples[:, 0], about) | np.isin(triples[:, 2], about)


def _has_tail(triples: Ids, common: Ids) -> NDArray[np.bool_]:
    """Which of triples (n, 3) have one of the relations and tails (m, 2)."""
    wide = np.int64(1) << 32
    keys = triples[:, 1].astype(np.int64) * wide + triples[:, 2]
    return np.isin(keys, common[:, 0].astype(np.int64) * wide + common[:, 1])
