"""Completing a graph: the most probable facts that it lacks, out of all pairs of entities that a relation could join.

Pairs go by in units, some heads of one relation against its tails. Of each unit only what can still be among the best
is kept, so memory is bounded by how many facts are asked for, whatever the graph's size. Where the search stands after
a unit is all that it takes to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import logit

from transher.answering.evidence import explain_ids
from transher.answering.facts import Facts, facts_table
from transher.deadline import slices
from transher.errors import UsageError
from transher.evaluation.calibration import Calibration
from transher.graph.encoding import triple_keys
from transher.graph.graph import Graph, Side
from transher.graph.places import Places
from transher.scorer import Scorer

if TYPE_CHECKING:
    from transher.runs.run import Run

BEST = 1_000  # how many facts, unless a probability is given
MOST = 10_000_000  # how many facts above a probability: some 300 MB
_SCORES = 1 << 22  # of a unit
_HEADS = 512  # of a unit, at most

Progress = Callable[[int, int], None]  # pairs looked at, pairs in all
Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Wanted:
    """Which facts are asked for."""

    relations: tuple[int, ...]  # ids
    best: int
    above: float | None = None  # least probability
    any_entity: bool = False  # not only entities that fit the side of the relation
    base_rate: float | None = None


class Standing(NamedTuple):
    """How far a search has come: `units` done, and the facts that may yet be among the best."""

    units: int
    pairs: int
    facts: Facts


class Search:
    """The search for `wanted` in a run: iterate over `standings` and take the last one's facts."""

    def __init__(self, run: Run, wanted: Wanted) -> None:
        if run.calibration is None:
            raise UsageError(
                f"The graph '{run.graph.name}' has no validation triples, so there are no probabilities to compare "
                "facts of different relations by."
            )
        self.wanted = wanted
        self._scorer: Scorer = run.scorer
        self._graph: Graph = run.graph
        self._calibration: Calibration = run.calibration
        graph = run.graph
        self._known = np.unique(triple_keys(graph.all_triples, len(graph.entities), len(graph.relations)))
        places = Places(graph)
        self._ends = {relation: self._fitting(places, relation) for relation in wanted.relations}
        self.pairs = sum(len(heads) * len(tails) for heads, tails in self._ends.values())
        self._rates = self._base_rates()

    def standings(self, start: Standing | None = None) -> Iterator[Standing]:
        """One standing after each unit, from `start` on; the last one has the facts in order and no more than asked."""
        standing = start or Standing(0, 0, Facts.none())
        number = 0
        for relation, (heads, tails) in self._ends.items():
            size = max(1, min(_HEADS, _SCORES // max(1, len(tails))))
            for part in slices(len(heads), size):
                number += 1
                if number <= standing.units:
                    continue
                found = self._unit(relation, heads[part], tails, self._least(standing.facts))
                facts = self._kept(standing.facts.joined(found), 2 * self.wanted.best) if len(found) else standing.facts
                standing = Standing(number, standing.pairs + len(heads[part]) * len(tails), facts)
                yield standing
        yield Standing(number, self.pairs, self._kept(standing.facts, self.wanted.best).ordered())

    def _fitting(self, places: Places, relation: int) -> tuple[Ids, Ids]:
        """Entities that may be heads and tails: see `Places`."""
        if self.wanted.any_entity:
            everything = np.arange(len(self._graph.entities), dtype=np.int32)
            return everything, everything
        full_heads, full_tails = places.taken(relation)
        heads = np.setdiff1d(places.heads(relation), full_heads, assume_unique=True)
        return heads, np.setdiff1d(places.tails(relation), full_tails, assume_unique=True)

    def _base_rates(self) -> dict[int, float]:
        """For each relation what share of its pairs holds. Unless the user says so, it is as if the graph lacked as
        many facts as were held out for validation: the sampled rate of one in eleven is far from that of all pairs."""
        if self.wanted.base_rate is not None:
            return dict.fromkeys(self.wanted.relations, self.wanted.base_rate)
        held_out = np.bincount(self._graph.valid[:, 1], minlength=len(self._graph.relations))
        return {
            relation: min(0.5, float(held_out[relation] + 0.5) / (len(heads) * len(tails) + 1))
            for relation, (heads, tails) in self._ends.items()
        }

    def _least(self, facts: Facts) -> float:
        """Log odds below which a fact cannot be among the best any more."""
        least = -np.inf if self.wanted.above is None else float(logit(self.wanted.above))
        if len(facts) >= self.wanted.best:
            least = max(least, float(-np.partition(-facts.log_odds, self.wanted.best - 1)[self.wanted.best - 1]))
        return least

    @torch.no_grad()
    def _unit(self, relation: int, heads: Ids, tails: Ids, least: float) -> Facts:
        """What is new and good enough among these heads and tails of a relation."""
        rate, scorer, side = self._rates[relation], self._scorer, _SIDE
        threshold = -np.inf if least == -np.inf else self._calibration.score_at(least, relation, side, rate)
        anchors = torch.from_numpy(heads.astype(np.int64))
        relations = torch.full_like(anchors, relation)
        found = Facts.none()
        for part in slices(len(tails), max(1, _SCORES // len(heads))):
            scores = scorer.scores(anchors, relations, side, torch.from_numpy(tails[part].astype(np.int64))).numpy()
            rows, columns = np.nonzero(scores >= threshold)
            triples = np.stack([heads[rows], np.full(len(rows), relation, np.int32), tails[part][columns]], axis=1)
            new = self._new(triples)
            good = scores[rows[new], columns[new]]
            log_odds = self._calibration.logits(good, relation, side, rate)
            found = self._kept(found.joined(Facts(triples[new], good, log_odds)), self.wanted.best)
        return found

    def _new(self, triples: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each of triples (n, 3) is neither known nor a loop of a relation that has none."""
        keys = triple_keys(triples, len(self._graph.entities), len(self._graph.relations))
        places = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        new = self._known[places] != keys
        if len(triples) and not self._graph.has_loops[triples[0, 1]]:
            new &= triples[:, 0] != triples[:, 2]
        return np.asarray(new, dtype=np.bool_)

    @staticmethod
    def _kept(facts: Facts, count: int) -> Facts:
        if len(facts) <= count:
            return facts
        return facts.take(np.argpartition(-facts.log_odds, count)[:count])


_SIDE: Side = "tail"  # with reciprocal relations each side has a score of its own; tails are asked for, as in `score`


def wanted_facts(
    run: Run,
    relations: Sequence[str] | None = None,
    best: int | None = None,
    above: float | None = None,
    any_entity: bool = False,
    base_rate: float | None = None,
) -> Wanted:
    """A request in names, checked. Without `best` it is 1,000 facts, or all that are above a given probability."""
    if best is not None and best < 1:
        raise UsageError(f"best must be at least 1, not {best}.")
    if above is not None and not 0 < above < 1:
        raise UsageError(f"above is a probability between 0 and 1, not {above}.")
    names = relations or run.graph.relations.identifiers.to_pylist()
    ids = tuple(dict.fromkeys(run.graph.relations.find(name) for name in names))
    return Wanted(ids, best or (BEST if above is None else MOST), above, any_entity, base_rate)


def complete(
    run: Run,
    *,
    relations: Sequence[str] | None = None,
    best: int | None = None,
    above: float | None = None,
    any_entity: bool = False,
    base_rate: float | None = None,
    evidence: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The most probable facts that the graph lacks, best first: a table as of `facts_table`, with the strongest reason
    for each fact on request."""
    search = Search(run, wanted_facts(run, relations, best, above, any_entity, base_rate))
    facts = Facts.none()
    for standing in search.standings():
        facts = standing.facts
        if progress is not None:
            progress(standing.pairs, search.pairs)
    table = facts_table(run.graph, facts)
    if evidence:
        table["evidence"] = reasons(run, facts)
    return table


def complete_relation(
    run: Run,
    relation: str,
    *,
    best: int = 100,
    above: float | None = None,
    any_entity: bool = False,
    base_rate: float | None = None,
    evidence: bool = False,
) -> pd.DataFrame:
    """The most probable missing facts of one relation."""
    return complete(
        run, relations=[relation], best=best, above=above, any_entity=any_entity, base_rate=base_rate, evidence=evidence
    )


def reasons(run: Run, facts: Facts, progress: Progress | None = None) -> list[str]:
    """The strongest evidence for each fact, in a sentence."""
    found = []
    for number, (head, relation, tail) in enumerate(facts.triples.tolist(), 1):
        found.append(explain_ids(run, (head, relation, tail), limit=1).headline())
        if progress is not None:
            progress(number, len(facts))
    return found
