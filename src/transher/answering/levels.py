"""How high the candidates of a query reach: what a score is compared with to say whether it is a good answer.

For a query, a head of a relation or a tail of it, the *levels* are the scores of its 1st, 2nd, 3rd, 5th, 10th and 30th
best candidate, among the entities that fit the other end and that training did not see as answers; then the mean score
of the answers that training saw. They depend on what was trained on alone, never on facts that were held out: those
would be compared with themselves.

Where a graph is small enough, the levels of all queries are kept with the run, and a look-up is a binary search. The
levels of other queries are computed when they are first asked for, and remembered for a while: a search meets the same
tails with every block of heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.deadline import slices
from transher.graph.ends import Ends
from transher.graph.known import KnownTriples
from transher.scorer import Scorer

PLACES = np.array([1, 2, 3, 5, 10, 30])  # of the candidates whose scores are kept
WIDTH = len(PLACES) + 1
LARGEST = 4_000_000_000  # pairs of a graph whose levels are all kept: some minutes at 512 dimensions
_SCORES = 1 << 24  # at a time: 64 MB
_FEW = 5  # facts of a relation that the spread over all relations counts for
_REFERENCE = 4_096  # candidates of a query in a larger graph, evenly drawn
_REMEMBERED = 1_000_000  # queries whose levels are remembered: 32 MB

Ids = NDArray[np.integer]
Values = NDArray[np.float32]


class Crossed(NamedTuple):
    """The scores (heads, tails) of some heads of a relation against all of its candidates for tails. Trained facts, and
    those of an entity with itself where there are none, are −inf."""

    relation: int
    heads: NDArray[np.int32]
    tails: NDArray[np.int32]
    scores: Tensor
    last: bool  # block of the relation


class Levels:
    """Levels by end and entity. `values` (n, WIDTH) are those of entities (n,), which are sorted within each end:
    starts[e] to starts[e + 1]. Nothing kept means that all are computed when they are asked for."""

    def __init__(self, scorer: Scorer, trained: KnownTriples, ends: Ends) -> None:
        self.scorer, self._trained, self._ends = scorer, trained, ends
        self.starts: NDArray[np.int64] = np.zeros(2 * trained.relation_count + 1, np.int64)
        self.entities: NDArray[np.int32] = np.empty(0, np.int32)
        self.values: Values = np.empty((0, WIDTH), np.float32)
        self._remembered: dict[int, tuple[NDArray[np.int64], Values]] = {}

    def score(self, triples: Ids) -> Values:
        """The one score (n,) of triples (n, 3) by the scorer that the levels are of."""
        scores: Values = self.scorer.score(torch.from_numpy(np.ascontiguousarray(triples, dtype=np.int64))).numpy()
        return scores

    @property
    def centre(self) -> NDArray[np.float64]:
        """Mean of the trained scores of each relation: (relations,)."""
        return self.scale[0]

    @property
    def spread(self) -> NDArray[np.float64]:
        """Their standard deviation, never 0: (relations,)."""
        return self.scale[1]

    @property
    def pairs(self) -> int:
        """How many pairs of a head and a tail that fit there are, over all relations."""
        heads, tails = np.diff(self._ends.starts).reshape(2, -1)
        return int((heads * tails).sum())

    @property
    def all_fit(self) -> bool:
        """Whether the graph is small enough for the levels of all queries."""
        return self.pairs <= LARGEST

    def of(self, ends: Ids, entities: Ids) -> Values:
        """Levels (n, WIDTH) of the queries from entities (n,) at ends (n,)."""
        found = np.full((len(ends), WIDTH), np.nan, np.float32)
        for end in np.unique(ends).tolist():
            rows = np.flatnonzero(ends == end)
            kept = slice(self.starts[end], self.starts[end + 1])
            places, there = _places(self.entities[kept], entities[rows])
            found[rows[there]] = self.values[kept][places[there]]
            rest = rows[~there]
            if len(rest):
                found[rest] = self._remember(end, entities[rest])
        return found

    def crossed(self, relations: Ids) -> Iterator[Crossed]:
        """All pairs of fitting heads and tails of some relations, some heads at a time."""
        for relation in relations.tolist():
            heads = self._ends.fitting(relation)
            tails = self._ends.fitting(relation + self._trained.relation_count)
            if not len(heads) or not len(tails):
                continue
            for part in slices(len(heads), max(1, _SCORES // len(tails))):
                scores = self._scores(relation, heads[part], tails)
                yield Crossed(relation, heads[part], tails, scores, part.stop >= len(heads))

    def keep(self, rows: dict[int, tuple[NDArray[np.int32], Values]]) -> None:
        """Take levels by end for later look-ups."""
        self._remembered.clear()
        counts = [len(rows[end][0]) if end in rows else 0 for end in range(len(self.starts) - 1)]
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        chosen = [rows[end] for end in range(len(self.starts) - 1) if end in rows]
        if chosen:
            self.entities = np.concatenate([entities for entities, _ in chosen])
            self.values = np.concatenate([values for _, values in chosen])

    def trained_means(self, end: int, entities: Ids) -> Values:
        """Mean score of the trained answers of entities (n,) at an end: (n,); NaN where there are none."""
        keys, means = self._trained_means
        wanted = np.asarray(entities, np.int64) * (2 * self._trained.relation_count) + end
        places, there = _places(keys, wanted)
        found = np.full(len(wanted), np.nan, np.float32)
        found[there] = means[places[there]]
        return found

    @cached_property
    def trained_scores(self) -> tuple[NDArray[np.int64], Values]:
        """The trained triples (n, 3) and their scores (n,)."""
        heads, relations = self._trained.answers("tail").pairs()
        triples = np.stack([heads, relations, self._trained.answers("tail").answers], 1).astype(np.int64)
        return triples, self.scorer.score(torch.from_numpy(triples)).numpy()

    @cached_property
    def scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of the trained scores of each relation, (relations,) each. A relation with few
        facts leans on all of them."""
        triples, scores = self.trained_scores
        exact, count = scores.astype(np.float64), self._trained.relation_count
        everywhere = float(exact.std()) if len(exact) else 1.0
        facts = np.bincount(triples[:, 1], minlength=count)
        means = np.bincount(triples[:, 1], exact, count) / np.maximum(facts, 1)
        means[facts == 0] = exact.mean() if len(exact) else 0.0
        squares = np.bincount(triples[:, 1], np.square(exact - means[triples[:, 1]]), count)
        spread = np.sqrt((squares + _FEW * everywhere**2) / (facts + _FEW))
        return means, np.maximum(spread, 1e-6)

    @cached_property
    def _trained_means(self) -> tuple[NDArray[np.int64], Values]:
        triples, scores = self.trained_scores
        count = self._trained.relation_count
        keys = np.concatenate(
            [triples[:, 0] * 2 * count + triples[:, 1], triples[:, 2] * 2 * count + triples[:, 1] + count]
        )
        distinct, group = np.unique(keys, return_inverse=True)
        totals = np.bincount(group, np.tile(scores, 2).astype(np.float64))
        return distinct, (totals / np.bincount(group)).astype(np.float32)

    def _remember(self, end: int, entities: Ids) -> Values:
        """Levels (n, WIDTH) of entities (n,) at an end, computed unless they were before."""
        own, values = self._remembered.get(end, (np.empty(0, np.int64), np.empty((0, WIDTH), np.float32)))
        new = np.setdiff1d(entities, own)
        if len(new):
            own, values = np.concatenate([own, new]), np.concatenate([values, self._computed(end, new)])
            order = np.argsort(own)
            own, values = own[order], values[order]
            if sum(len(others) for others, _ in self._remembered.values()) + len(new) > _REMEMBERED:
                self._remembered.clear()
            if len(own) <= _REMEMBERED:
                self._remembered[end] = own, values
        return values[np.searchsorted(own, entities)]

    def _computed(self, end: int, anchors: NDArray[np.integer]) -> Values:
        """Levels (n, WIDTH) of distinct anchors (n,) at an end, ascending."""
        count = self._trained.relation_count
        relation, is_head = end % count, end < count
        others = self._ends.fitting(end + count if is_head else relation)
        if len(others) > _REFERENCE and not self.all_fit:
            others = others[np.linspace(0, len(others) - 1, _REFERENCE).astype(np.int64)]
        values = np.full((len(anchors), WIDTH), np.nan, np.float32)
        if not len(others):
            return values
        for part in slices(len(anchors), max(1, _SCORES // len(others))):
            own = anchors[part].astype(np.int32)
            pair = (own, others) if is_head else (others, own)
            scores = self._scores(relation, *pair)
            values[part] = levels_of(scores if is_head else scores.T)
        if len(self.values) == 0:  # kept levels have these means; an entity without kept ones has no answers there
            values[:, -1] = self.trained_means(end, anchors)
        return values

    @torch.no_grad()
    def _scores(self, relation: int, heads: NDArray[np.int32], tails: NDArray[np.int32]) -> Tensor:
        """What `Scorer.score` gives each pair, but for rounding: (heads, tails), without what is no candidate."""
        scores = cross_scores(self.scorer, relation, heads, tails)
        rows, columns = known_places(self._trained, relation, heads, tails)
        scores.numpy()[rows, columns] = -np.inf
        return scores


def _places(sorted_ids: Ids, wanted: Ids) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each of the wanted ids (n,) stands among sorted ones, and whether it is there: (n,) each."""
    if not len(sorted_ids):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(sorted_ids, wanted), len(sorted_ids) - 1)
    return places, sorted_ids[places] == wanted


def levels_of(scores: Tensor) -> Values:
    """Levels (n, WIDTH) of queries from the scores (n, N) of their candidates; the mean of trained answers is NaN."""
    count = min(int(PLACES[-1]), scores.shape[1])
    best = torch.full((len(scores), int(PLACES[-1])), -torch.inf)
    best[:, :count] = scores.topk(count, dim=1).values
    return from_best(best)


def from_best(best: Tensor) -> Values:
    """Levels (n, WIDTH) from the best scores (n, the last place), without the mean of trained answers."""
    values = np.full((len(best), WIDTH), np.nan, np.float32)
    values[:, : len(PLACES)] = best[:, PLACES - 1].numpy()
    return values


@torch.no_grad()
def cross_scores(scorer: Scorer, relation: int, heads: NDArray[np.int32], tails: NDArray[np.int32]) -> Tensor:
    """What `Scorer.score` gives each pair of heads and tails of a relation, but for rounding: (heads, tails)."""
    one, other = (torch.from_numpy(ids.astype(np.int64)) for ids in (heads, tails))
    scores = scorer.scores(one, torch.full_like(one, relation), "tail", other)
    if scorer.sides_differ:
        scores = (scores + scorer.scores(other, torch.full_like(other, relation), "head", one).T) / 2
    return scores.contiguous()


def known_places(
    known: KnownTriples, relation: int, heads: NDArray[np.int32], tails: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the pairs of heads and ascending tails that are known, or that join an entity with itself
    where the relation has no such facts."""
    offsets, answers = known.answers("tail").of(heads, np.full(len(heads), relation))
    rows = np.repeat(np.arange(len(heads)), np.diff(offsets))
    if not known.has_loops[relation]:
        rows, answers = np.concatenate([rows, np.arange(len(heads))]), np.concatenate([answers, heads])
    columns = np.minimum(np.searchsorted(tails, answers), len(tails) - 1)
    here = tails[columns] == answers
    return rows[here], columns[here]
