"""A blend as a scorer: the weighted sum of what its members say, and what the tallies of candidates are worth.

Within one query, the log-softmax of a member differs from its raw score by a constant only. So a weighted sum of raw
scores ranks as the weighted sum of log-softmaxes does, and no normaliser is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transher.blending.tallies import Tallies
from transher.graph.graph import SIDES, Side
from transher.rules import Rules
from transher.scorer import Scored, Scorer, asked_columns


@dataclass(frozen=True)
class Weights:
    """How m members are blended. A member's score s counts as log(1 + b·s)/b where its bend b is above 0, and as it is
    where b is 0: what rules say is never negative, and the tenth rule should not count as much as the first."""

    values: Tensor  # float32 (m, 2, relations): one for each side, in the order of SIDES, and relation; never negative
    bends: tuple[float, ...]  # (m,)
    worth: Tensor | None = None  # float32 (ends, LEVELS), of tallies; None where they do not count


class Blend(Scorer):
    """Several scorers of one graph, weighted for each relation and side, and tallies, if the weights say what they are
    worth."""

    def __init__(self, members: Sequence[Scorer], weights: Weights, tallies: Tallies | None = None) -> None:
        self.members, self.weights, self.tallies = tuple(members), weights, tallies

    def __repr__(self) -> str:
        return f"<Blend of {', '.join(repr(member) for member in self.members)}>"

    @property
    def entity_count(self) -> int:
        return self.members[0].entity_count

    @property
    def relation_count(self) -> int:
        return self.members[0].relation_count

    @property
    def sides_differ(self) -> bool:
        return True

    @property
    def parts(self) -> tuple[Scorer, ...]:
        return tuple(part for member in self.members for part in member.parts)

    @property
    def dense(self) -> bool:
        return all(member.dense for member in self.members)

    @property
    def dense_part(self) -> Scorer | None:
        found = [(number, member.dense_part) for number, member in enumerate(self.members)]
        kept = {number: part for number, part in found if part is not None}
        if not kept or (len(kept) == 1 and self.weights.worth is None):
            return next(iter(kept.values()), None)
        bends = tuple(self.weights.bends[number] for number in kept)
        weights = Weights(self.weights.values[list(kept)], bends, self.weights.worth)
        return Blend(list(kept.values()), weights, self.tallies)

    @property
    def queries_at_a_time(self) -> int:
        return min(super().queries_at_a_time, *(member.queries_at_a_time for member in self.members))

    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        own = self._of_relations(relations, side)[:, :, None]
        total = self._bent(0, self.members[0].scores(anchors, relations, side, candidates)).mul_(own[0])
        for number, member in enumerate(self.members[1:], 1):
            total += self._bent(number, member.scores(anchors, relations, side, candidates)).mul_(own[number])
        if self._counting is not None:
            tallies, worth = self._counting
            tallies.add(total, worth, anchors, relations, side, candidates)
        return total

    def score_own(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor) -> Tensor:
        own = self._of_relations(relations, side)[:, :, None]
        total = torch.zeros(candidates.shape)
        for number, member in enumerate(self.members):
            total += self._bent(number, member.score_own(anchors, relations, side, candidates)).mul_(own[number])
        if self._counting is not None:
            tallies, worth = self._counting
            given, by = (ids.repeat_interleave(candidates.shape[1]) for ids in (anchors, relations))
            total += tallies.pairs(worth, given, by, side, candidates.reshape(-1)).reshape(candidates.shape)
        return total

    def score_triples(self, triples: Tensor, side: Side = "tail") -> Tensor:
        own = self._of_relations(triples[:, 1].long(), side)
        total = torch.zeros(len(triples))
        for number, member in enumerate(self.members):
            total += self._bent(number, member.score_triples(triples, side)).mul_(own[number])
        return total if self._counting is None else total + self._tallied(triples, side)

    def score(self, triples: Tensor) -> Tensor:
        """As in Scorer. A member whose sides agree is asked once: rules take most of the time."""
        return self._sum(triples, range(len(self.members)), [_sides(member, triples) for member in self.members])

    def scored(self, triples: Tensor) -> Scored:
        """As in Scorer, with the bits that `score` and the dense part's `score` give."""
        rules, sides = None, []
        for member in self.members:
            if isinstance(member, Rules):
                found = member.scored(triples)
                rules = found.rules if rules is None else rules
                sides.append([found.whole] * len(SIDES))
            else:
                sides.append(_sides(member, triples))
        dense: Tensor | None = None
        kept, part = [number for number, member in enumerate(self.members) if member.dense], self.dense_part
        if len(kept) < sum(member.dense_part is not None for member in self.members):  # a blend of blends
            dense = None if part is None else part.score(triples)
        elif kept and part is self.members[kept[0]]:
            tails, heads = sides[kept[0]]
            dense = (tails + heads) / 2 if part.sides_differ else tails
        elif kept:
            dense = self._sum(triples, kept, sides)
        return Scored(self._sum(triples, range(len(self.members)), sides), dense, rules)

    def _sum(self, triples: Tensor, numbers: Iterable[int], sides: Sequence[Sequence[Tensor]]) -> Tensor:
        """The mean over both sides of what some members say, from their scores of triples (n, 3) by side: (n,)."""
        total = torch.zeros(len(triples))
        own = [self._of_relations(triples[:, 1].long(), side) for side in SIDES]
        for number in numbers:
            for weights, found in zip(own, sides[number], strict=True):
                total += self._bent(number, found) * weights[number]
        for side in SIDES if self._counting is not None else ():
            total += self._tallied(triples, side)
        return total / len(SIDES)

    @property
    def _counting(self) -> tuple[Tallies, Tensor] | None:
        """The tallies and what they are worth; None where they do not count."""
        worth = self.weights.worth
        return None if worth is None or self.tallies is None else (self.tallies, worth)

    def _tallied(self, triples: Tensor, side: Side) -> Tensor:
        """What the tallies of answers for a side are worth: (n,), of triples (n, 3)."""
        assert self._counting is not None
        tallies, worth = self._counting
        anchors, relations, answers = asked_columns(triples.long(), side)
        return tallies.pairs(worth, anchors, relations, side, answers)

    def _of_relations(self, relations: Tensor, side: Side) -> Tensor:
        """Weights (m, B) of B queries."""
        return self.weights.values[:, SIDES.index(side)][:, relations]

    def _bent(self, number: int, scores: Tensor) -> Tensor:
        return bent(scores, self.weights.bends[number])


def _sides(member: Scorer, triples: Tensor) -> list[Tensor]:
    """Scores (n,) of triples (n, 3) by side, in the order of SIDES."""
    first = member.score_triples(triples, SIDES[0])
    return [first, *(member.score_triples(triples, side) if member.sides_differ else first for side in SIDES[1:])]


def bent(scores: Tensor, bend: float) -> Tensor:
    """Scores as they count: see `Weights`. Writes into them or gives others."""
    if not bend:
        return scores
    # In double precision, where a score has the same bits alone and in a batch once it is rounded.
    return torch.log1p(scores.double() * bend).div_(bend).float()
