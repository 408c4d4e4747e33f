"""The search for missing facts: the most probable triples that a graph lacks, out of all pairs of eligible entities.

Of the whole graph, of some relations or of one entity. Pairs go by in units, some heads of one relation against its
tails. Of each unit only what can still be among the best is kept, so memory is bounded by how many facts are asked for,
whatever the graph's size. The standing after a unit is all that it takes to resume.

The judge (`transher.answering.judge`) gives the order. It looks at pairs that are among the ten best candidates of
their head or of their tail, or that have a tail which came often lately; a search of few pairs looks at all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from transher.answering.answers import Answering
from transher.answering.levels import PLACES, Levels, cross_scores, known_places
from transher.answering.predicted import Predicted
from transher.answering.reading import Earlier
from transher.deadline import slices
from transher.errors import UsageError
from transher.evaluation.ranks import Progress
from transher.graph.graph import Graph
from transher.graph.implied import Implied

BEST = 1_000  # how many facts, unless a probability is given
MOST = 10_000_000  # how many facts above a probability: some 300 MB
_SCORES = 1 << 22  # of a unit
_HEADS = 512  # of a unit, at most
_SMALL = 200_000  # pairs of a search that are all judged
_TENTH = int(np.flatnonzero(PLACES == 10)[0])
_ROUNDING = 1e-4  # by which two ways to compute a score may differ, as a share of the largest score

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Wanted:
    """Which facts are asked for."""

    relations: tuple[int, ...]  # ids
    best: int
    above: float | None = None  # least probability
    any_entity: bool = False  # not only eligible ones
    missing_share: float | None = None
    entity: int | None = None  # only facts about it
    pairs: int | None = None  # at most, those of the best connected entities
    implied_by: tuple[int, ...] = ()  # relations along which facts follow from known ones, which are no news


class Standing(NamedTuple):
    """How far a search has come: `units` done, and the facts that may yet be among the best."""

    units: int
    pairs: int
    facts: Predicted


class _Block(NamedTuple):
    """All pairs of some heads and some tails of a relation."""

    relation: int
    heads: Ids
    tails: Ids

    @property
    def pairs(self) -> int:
        return len(self.heads) * len(self.tails)


class Search:
    """The search for `wanted`: iterate over `standings`, or take `facts` of the last one. Without a judge facts are
    compared by score, which is of use within one relation."""

    def __init__(self, answering: Answering, wanted: Wanted, earlier: Earlier | None = None) -> None:
        """earlier: facts that are not wanted again."""
        self.wanted, self._earlier = wanted, earlier
        self._answering, self._graph = answering, answering.graph
        self._implied = Implied(self._graph.known, wanted.implied_by) if wanted.implied_by else None
        blocks = list(self._eligible())
        share = None if wanted.pairs is None else wanted.pairs // max(1, len(blocks))
        self._blocks = [block if share is None else self._best_connected(block, share) for block in blocks]
        self.pairs = sum(block.pairs for block in self._blocks)
        self.partial = self.pairs < sum(block.pairs for block in blocks)  # whether some pairs are left out

    def facts(self, progress: Progress | None = None) -> Predicted:
        """The facts that are wanted, best first."""
        facts = self._none
        for standing in self.standings():
            facts = standing.facts
            if progress is not None:
                progress(standing.pairs, self.pairs)
        return facts

    def standings(self, start: Standing | None = None) -> Iterator[Standing]:
        """One standing after each unit, from `start` on; the last one has the facts in order and no more than asked."""
        standing = start or Standing(0, 0, self._none)
        number = 0
        for relation, heads, tails in self._blocks:
            for part in slices(len(heads), max(1, min(_HEADS, _SCORES // max(1, len(tails))))):
                number += 1
                if number <= standing.units:
                    continue
                found = self._unit(relation, heads[part], tails, self._least(standing.facts))
                facts = standing.facts.joined(found).best(2 * self.wanted.best) if len(found) else standing.facts
                standing = Standing(number, standing.pairs + len(heads[part]) * len(tails), facts)
                yield standing
        yield Standing(number, self.pairs, standing.facts.best(self.wanted.best).ordered())

    @property
    def _none(self) -> Predicted:
        return Predicted.none(judged=self._answering.judge is not None)

    def _eligible(self) -> Iterator[_Block]:
        """The pairs that are looked at, relation by relation."""
        ends, known, entity = self._graph.ends, self._graph.known, self.wanted.entity
        everything = np.arange(len(self._graph.entities), dtype=np.int32)

        def at(end: int) -> Ids:
            return everything if self.wanted.any_entity else ends.eligible(end)

        if entity is None:
            for relation in self.wanted.relations:
                yield _Block(relation, at(relation), at(known.end(relation, "tail")))
            return
        itself = np.array([entity], dtype=np.int32)
        own = set(range(2 * known.relation_count) if self.wanted.any_entity else ends.of(entity).tolist())
        for relation in self.wanted.relations:
            head_end, tail_end = relation, known.end(relation, "tail")
            if head_end in own:
                yield _Block(relation, itself, at(tail_end))
            if tail_end in own:
                heads = at(head_end)
                yield _Block(relation, heads[heads != entity], itself)

    def _best_connected(self, block: _Block, pairs: int) -> _Block:
        """Not more than so many pairs of a block, those of the best connected entities: with many tails, then with as
        many heads as may be."""
        if block.pairs <= pairs:
            return block
        tails = self._leading(block.tails, max(1, pairs // min(16, len(block.heads))))
        return _Block(block.relation, self._leading(block.heads, max(1, pairs // len(tails))), tails)

    def _leading(self, entities: Ids, count: int) -> Ids:
        order = np.argsort(-self._graph.known.degrees[entities], kind="stable")
        return np.sort(entities[order[:count]])

    def _least(self, facts: Predicted) -> float:
        """What a fact must be worth to be among the best."""
        least = -np.inf if self.wanted.above is None else float(logit(self.wanted.above))
        if len(facts) >= self.wanted.best:
            least = max(least, float(-np.partition(-facts.worth, self.wanted.best - 1)[self.wanted.best - 1]))
        return least

    def _unit(self, relation: int, heads: Ids, tails: Ids, least: float) -> Predicted:
        """What is new and good enough among these heads and tails of a relation."""
        found = self._none
        for part in slices(len(tails), max(1, _SCORES // len(heads))):
            triples = self._candidates(relation, heads, tails[part], least)
            judged = self._answering.judged(triples, self.wanted.missing_share)
            found = found.joined(judged.take(judged.worth >= least)).best(self.wanted.best)
        return found

    def _candidates(self, relation: int, heads: Ids, tails: Ids, least: float) -> NDArray[np.int32]:
        """The triples (n, 3) that the graph lacks which are looked at: all of a small search, and of a large one those
        among the ten best of their head or of their tail by some scorer, as far as they may be good enough."""
        known = known_places(self._graph.known, relation, heads, tails)
        judge = self._answering.judge
        levels = None if judge is None or self.pairs <= _SMALL else judge.describer.levels
        crossed = None if levels is None else cross_scores(levels.scorer, relation, heads, tails).numpy()
        if levels is not None and crossed is not None:
            chosen = self._best_of_ends(levels, crossed, relation, heads, tails)
            if judge is not None and judge.describer.recent is not None:
                chosen[:, np.isin(tails, judge.describer.recent.frequent(relation))] = True
        elif self.pairs <= _SMALL:
            chosen = np.ones((len(heads), len(tails)), dtype=np.bool_)
        else:
            chosen = self._best_scores(cross_scores(self._answering.scorer, relation, heads, tails).numpy())
        chosen[known] = False
        rows, columns = np.nonzero(chosen)
        triples = np.stack([heads[rows], np.full(len(rows), relation, np.int32), tails[columns]], axis=1)
        for others in (self._earlier, self._implied):
            if others is not None:
                fresh = ~others.has(triples)
                triples, rows, columns = triples[fresh], rows[fresh], columns[fresh]
        if crossed is None or judge is None or len(triples) <= self.wanted.best:
            return triples
        least = least if self.wanted.missing_share is None else -np.inf
        return triples[judge.promising(triples, crossed[rows, columns], least, self.wanted.best)]

    def _best_of_ends(
        self, levels: Levels, scores: NDArray[np.float32], relation: int, heads: Ids, tails: Ids
    ) -> NDArray[np.bool_]:
        """Which pairs are among the ten best of their head or of their tail by their scores (heads, tails)."""
        ends = (relation, heads), (relation + self._graph.known.relation_count, tails)
        of_heads, of_tails = (levels.of(np.full(len(own), end), own)[:, _TENTH] for end, own in ends)
        slack = _ROUNDING * (1 + float(np.abs(of_heads[np.isfinite(of_heads)]).max(initial=0)))
        return np.asarray(~(scores < of_heads[:, None] - slack) | ~(scores < of_tails[None, :] - slack))

    def _best_scores(self, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """The scores (heads, tails) that can be among the best of this unit."""
        if scores.size <= self.wanted.best:
            return np.ones(scores.shape, dtype=np.bool_)
        last = scores.size - self.wanted.best
        return np.asarray(scores >= np.partition(scores.ravel(), last)[last])


def wanted_facts(
    graph: Graph,
    relations: Sequence[str] | None = None,
    best: int | None = None,
    above: float | None = None,
    any_entity: bool = False,
    missing_share: float | None = None,
    entity: str | None = None,
    implied_by: Sequence[str] = (),
) -> Wanted:
    """A request in names, checked. Without `best` it is 1,000 facts, or all that are above a given probability."""
    if not len(graph.valid):
        raise UsageError(
            f"The graph '{graph.name}' has no validation triples, so there are no probabilities to compare facts of "
            "different relations by."
        )
    if best is not None and best < 1:
        raise UsageError(f"best must be at least 1, not {best}.")
    if above is not None and not 0 < above < 1:
        raise UsageError(f"above is a probability between 0 and 1, not {above}.")
    names = relations or graph.relations.identifiers.to_pylist()
    ids = relation_ids(graph, names)
    about = None if entity is None else graph.entities.find(entity)
    along = relation_ids(graph, implied_by)
    return Wanted(
        ids,
        best or (BEST if above is None else MOST),
        above,
        any_entity,
        missing_share,
        about,
        implied_by=along,
    )


def relation_ids(graph: Graph, names: Sequence[str]) -> tuple[int, ...]:
    """The ids of relations by their names, each once."""
    return tuple(dict.fromkeys(graph.relations.find(name) for name in names))
