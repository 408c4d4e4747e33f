"""What the answers that a candidate has already say of one more: a blend's knowledge of the graph itself.

A score compares a candidate with an anchor. It does not see what else the candidate has: who was born in one city is a
poor answer to "who was born in another one?" So a candidate is also judged by its *tally*, the number of answers that
it has at that end of the relation, in two ways:

- **More.** How often does an entity with a tally of c have one more answer? By Good and Turing, take each trained fact
  away in turn: its entity has c others, and one more. Where every person has one birthplace, those with none are far
  ahead of those with one. Where few entities have most of the facts, these are ahead.
- **Rarity.** Most scorers overrate what is frequent. This takes some of it back.

Both are weighted as if they were members of the blend. Together they come to one number for each end and tally.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.graph.ends import Ends
from transher.graph.graph import SIDES, Graph, Side
from transher.graph.known import KnownTriples

_STARTS = np.unique(np.round(1.4 ** np.arange(60)).astype(np.int64))  # of the levels of tallies from 1 on
LOOP, MISFIT = len(_STARTS) + 1, len(_STARTS) + 2  # levels of what is no tally
LEVELS = len(_STARTS) + 3
WAYS = 2  # to judge by a tally
_SMOOTHING = 2.0  # entities as all ends have them, added to those of each end
_DOUBT = 0.5  # facts of a kind that the graph has none of


class Tallies:
    """The tallies of a graph's entities, as levels: one for 0, then ranges of numbers that grow. Two more levels are no
    tallies: an entity as an answer about itself where the relation has no such facts, and one that does not fit."""

    def __init__(self, trained: KnownTriples, ends: Ends) -> None:
        self._trained, self._ends = trained, ends

    @classmethod
    def of(cls, graph: Graph) -> Tallies:
        return cls(graph.trained, graph.trained_ends)

    def ways(self) -> Tensor:
        """What tallies say of one more answer, in each way: float32 (WAYS, ends, LEVELS)."""
        trained, ends = self._trained, np.arange(2 * self._trained.relation_count)
        entities, facts = (np.zeros((len(ends), LEVELS)) for _ in range(2))
        for side in SIDES:
            _, relations, counts = trained.answers(side).queries()
            own = trained.end(relations, "head" if side == "tail" else "tail")
            np.add.at(entities, (own, _level(counts)), 1)
            np.add.at(facts, (own, _level(counts - 1)), counts)
        fitting = np.diff(self._ends.starts)
        entities[:, 0] = fitting - self._ends.standing_counts
        entities[:, MISFIT] = trained.entity_count - fitting
        usual = facts.sum(0) / np.maximum(entities.sum(0), 1)
        more = (facts + _SMOOTHING * usual) / (entities + _SMOOTHING)
        more[:, MISFIT] = _DOUBT / (entities[:, MISFIT] + 1)
        more[:, LOOP] = _DOUBT / (np.tile(trained.relation_counts, 2) + 1)
        more = np.maximum(more, more[more > 0].min(initial=1.0))
        rarity = -np.log1p(np.concatenate([[0], _STARTS, [0, 0]]))
        return torch.from_numpy(np.stack([np.log(more), np.tile(rarity, (len(ends), 1))])).float()

    def add(
        self, scores: Tensor, worth: Tensor, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None
    ) -> None:
        """Add to the scores (B, N) of candidates (N,), each once, which are all entities unless given, what their
        tallies are worth as answers to B queries. worth: (ends, LEVELS)."""
        rows, ids = self._apart(anchors, relations, side)
        columns = ids
        if candidates is not None:
            column_of = torch.full((self._trained.entity_count,), -1)
            column_of[candidates] = torch.arange(len(candidates))
            here = column_of[ids] >= 0
            rows, ids, columns = rows[here], ids[here], column_of[ids[here]]
        own = scores[rows, columns] + self.pairs(worth, anchors[rows], relations[rows], side, ids)
        for relation in relations.unique().tolist():
            end = self._trained.end(relation, side)
            levels = torch.from_numpy(self._levels(end))
            usual = worth[end][levels if candidates is None else levels[candidates]]
            asked = relations == relation
            if bool(asked.all()):
                scores += usual
            else:
                scores[asked] += usual
        scores[rows, columns] = own

    def _apart(self, anchors: Tensor, relations: Tensor, side: Side) -> tuple[Tensor, Tensor]:
        """Queries and entities (n,) whose level depends on the query: trained answers, since a fact does not speak
        against itself, and anchors as answers about themselves."""
        offsets, ids = self._trained.answers(side).of(anchors.numpy(), relations.numpy())
        rows = torch.repeat_interleave(torch.from_numpy(np.diff(offsets)))
        alone = torch.nonzero(~torch.from_numpy(self._trained.has_loops)[relations])[:, 0]
        return torch.cat([rows, alone]), torch.cat([torch.from_numpy(ids.astype(np.int64)), anchors[alone]])

    def pairs(self, worth: Tensor, anchors: Tensor, relations: Tensor, side: Side, answers: Tensor) -> Tensor:
        """What the tallies of answers (n,) to n queries are worth: (n,), with the bits that `add` adds."""
        given, by, found = (ids.numpy() for ids in (anchors, relations, answers))
        ends = self._trained.end(by, side)
        index = self._trained.answers("head" if side == "tail" else "tail")
        counts = index.counts(found, by)
        levels = _level(counts - index.has(found, by, given))
        none = np.flatnonzero(counts == 0)
        levels[none[~self._ends.fits_at(ends[none], found[none])]] = MISFIT
        levels[(given == found) & ~self._trained.has_loops[by]] = LOOP
        return worth[torch.from_numpy(ends), torch.from_numpy(levels)]

    def _levels(self, end: int) -> NDArray[np.int64]:
        """Of all entities as answers that stand at an end: (entities,)."""
        levels = np.full(self._trained.entity_count, MISFIT)
        levels[self._ends.fitting(end)] = 0
        sources, _ = self._trained.edges(end)
        standing, counts = np.unique(sources, return_counts=True)
        levels[standing] = _level(counts)
        return levels


def _level(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.searchsorted(_STARTS, counts, side="right")
