"""What the judge looks at: numbers that describe a pair of entities as a fact of a relation, and their words.

Of the scorer, or of the part of it that is not rules: its score, and how that compares with the scores of the other
candidates of the head and of the tail, and with those of their trained answers. The members of a blend speak as one:
each for itself told the judge less on validation facts of FB15k-237, and took longer. Of rules: how strongly they
predict the pair. Of the graph: how many answers are known already, whether the relation has one answer only, whether
such entities stand there at all, how often they occur. Of facts that came later, where the judge is fitted on them: how
many have the same answer. Where rules are blended with other scorers, also the score of the blend.

Scores are compared with what was trained on alone (`transher.answering.levels`). Counts of known answers take in a few
that training did not see: a person whose birthplace is a validation fact has a birthplace.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from transher.answering.levels import PLACES, Levels
from transher.answering.recent import Recent
from transher.graph.ends import Ends
from transher.graph.graph import Side
from transher.graph.known import KnownTriples
from transher.rules import Rules
from transher.scorer import Scored, Scorer

Numbers = NDArray[np.float64]

# In units of the spread of the relation's trained scores. All of them rise with the score, and the probability may only
# rise with them.
OF_SCORER = (
    "score",
    "lead among tails",
    "lead among heads",
    "place among tails",
    "place among heads",
    "above 30th tail",
    "above 30th head",
    "above known tails",
    "above known heads",
)
OF_RULES = ("rules", "strongest rule")  # the probability may only rise with these too
OF_BLEND = ("blended score",)  # and with this, the score of all members where some are rules
OF_LATER = ("recent facts of tail",)  # and with these
OF_ENTITIES = (  # counts of facts, or shares
    "known tails",
    "known heads",
    "known tails to usual",
    "known heads to usual",
    "degree of head",
    "degree of tail",
    "frequency of tail",
    "frequency of head",
)
OF_GRAPH = (
    *OF_ENTITIES,
    "head fits",
    "tail fits",
    "head alike",
    "tail alike",
    "loop",
    "tails per head",
    "heads per tail",
    "heads with one tail",
    "tails with one head",
    "heads that have it",
    "tails that have it",
    "facts of relation",
    "relation",
)
_MOSTLY = 0.5  # of the anchors of a relation have one answer: it is taken to have one
_FALLEN = np.log2(np.array([1.0, 1.5, 2.5, 4.0, 7.5, 20.0, 60.0]))  # log₂ of the rank below so many of the levels


class Described(NamedTuple):
    """Features (n, m) with their names (m,)."""

    values: NDArray[np.float32]
    names: tuple[str, ...]


class Trained(NamedTuple):
    """What the judge knows of a relation from the facts that were trained on: (relations,) each."""

    per_head: Numbers
    per_tail: Numbers
    single_head: Numbers  # share of heads with one tail
    single_tail: Numbers
    filled_heads: Numbers  # share of the fitting heads that have a tail
    filled_tails: Numbers
    facts: NDArray[np.int64]

    @classmethod
    def of(cls, trained: KnownTriples, ends: Ends) -> Trained:
        facts, count = trained.relation_counts, trained.relation_count
        standing, fitting = (np.maximum(sizes, 1) for sizes in (ends.standing_counts, np.diff(ends.starts)))
        alone = ends.alone_counts / standing
        return cls(
            facts / standing[:count],
            facts / standing[count:],
            alone[:count],
            alone[count:],
            (standing / fitting)[:count],
            (standing / fitting)[count:],
            facts,
        )


class Describer:
    """Describes triples by a scorer, whose `levels` are None where it is nothing but rules, by rules if there are some,
    by what was trained on, and by `recent` facts where the judge is fitted on them. blend: the scorer, where it has a
    dense part and is more than that."""

    def __init__(
        self,
        levels: Levels | None,
        rules: Rules | None,
        blend: Scorer | None,
        trained: KnownTriples,
        ends: Ends,
        recent: Recent | None,
    ) -> None:
        self.levels, self.rules, self.blend = levels, rules, blend
        self.trained, self.ends, self.recent = trained, ends, recent

    @property
    def names(self) -> tuple[str, ...]:
        of_scorer = OF_SCORER if self.levels is not None else ()
        of_rules = OF_RULES if self.rules is not None else ()
        of_blend = OF_BLEND if self.blend is not None else ()
        return (*of_scorer, *of_rules, *of_blend, *OF_GRAPH, *(OF_LATER if self.recent is not None else ()))

    @property
    def first_names(self) -> tuple[str, ...]:
        """Those that `first` gives."""
        return tuple(name for name in self.names if name not in (*OF_RULES, *OF_BLEND))

    @staticmethod
    def rising_of(names: Sequence[str]) -> tuple[bool, ...]:
        """With which of some features the probability may only rise."""
        return tuple(name not in OF_GRAPH for name in names)

    def first(
        self, triples: NDArray[np.integer], known: KnownTriples, scores: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Features (n, m) of triples (n, 3) but for those of rules, which take longer. scores: (n,), where they are at
        hand."""
        parts = [self._of_graph(triples, known)]
        if self.levels is not None:
            own = self.levels.score(triples) if scores is None else scores
            parts.insert(0, self._of_scorer(self.levels, triples, own))
        if self.recent is not None:
            parts.append(self.recent.of_others(triples)[:, None].astype(np.float32))
        return np.concatenate(parts, 1)

    def whole(
        self,
        triples: NDArray[np.integer],
        first: NDArray[np.float32],
        scored: Scored | None = None,
    ) -> NDArray[np.float32]:
        """All features (n, m), in the order of `names`, from those of `first`. scored: what the scorer says of them,
        where that is at hand."""
        if scored is None and self.blend is not None:
            scored = self.blend.scored(torch.from_numpy(np.ascontiguousarray(triples, dtype=np.int64)))
        added: list[NDArray[np.float32]] = []
        if self.rules is not None:
            added += self.rules.strengths(triples) if scored is None or scored.rules is None else scored.rules
        if self.blend is not None and scored is not None:
            added.append(scored.whole.numpy())
        place = 0 if self.levels is None else len(OF_SCORER)
        return np.concatenate([first[:, :place], *(column[:, None] for column in added), first[:, place:]], 1)

    def fitting(self, whole: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Whether head and tail fit, by all features (n, m): (n,)."""
        head, tail = (self.names.index(name) for name in ("head fits", "tail fits"))
        return (whole[:, head] > 0) & (whole[:, tail] > 0)

    @cached_property
    def _relations(self) -> Trained:
        return Trained.of(self.trained, self.ends)

    def _of_scorer(
        self, levels: Levels, triples: NDArray[np.integer], scores: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        heads, relations, tails = triples.T
        of_head = levels.of(relations, heads)
        of_tail = levels.of(relations + self.trained.relation_count, tails)
        unit = levels.spread[relations]
        columns = [(scores - levels.centre[relations]) / unit]
        sides = [_standing(scores, values) for values in (of_head, of_tail)]
        columns += [lead / unit for lead, _ in sides]
        columns += [place for _, place in sides]
        columns += [(scores - values[:, len(PLACES) - 1]) / unit for values in (of_head, of_tail)]
        columns += [(scores - values[:, -1]) / unit for values in (of_head, of_tail)]
        return np.stack(columns, 1).astype(np.float32)

    def _of_graph(self, triples: NDArray[np.integer], known: KnownTriples) -> NDArray[np.float32]:
        heads, relations, tails = triples.T
        count, of = self.trained.relation_count, self._relations
        of_head, of_tail = self._answers(triples, known)
        # Who fits an end is a little like those who stand there, and nobody else is.
        like_heads, like_tails = self.ends.alike_at(relations, heads), self.ends.alike_at(relations + count, tails)
        facts = np.maximum(of.facts[relations], 1)
        return np.stack(
            [
                of_head,
                of_tail,
                of_head / np.maximum(of.per_head[relations], 1),
                of_tail / np.maximum(of.per_tail[relations], 1),
                self.trained.degrees[heads],
                self.trained.degrees[tails],
                of_tail / facts,
                of_head / facts,
                like_heads > 0,
                like_tails > 0,
                like_heads,
                like_tails,
                (heads == tails) & ~self.trained.has_loops[relations],
                of.per_head[relations],
                of.per_tail[relations],
                of.single_head[relations],
                of.single_tail[relations],
                of.filled_heads[relations],
                of.filled_tails[relations],
                of.facts[relations],
                relations,
            ],
            1,
        ).astype(np.float32)

    def _answers(self, triples: NDArray[np.integer], known: KnownTriples) -> tuple[NDArray[np.int64], ...]:
        """How many other tails the heads of triples (n, 3) have, and how many other heads their tails: (n,) each. Those
        that were not trained on count where most anchors have one answer, since whose birthplace is known has no other,
        and where training saw none: whose only language was held out has a language. Elsewhere a pair is described as
        it was when the judge was fitted, before the hidden facts were known, since that is what it learned from."""
        heads, relations, tails = triples.T
        itself, now = self.trained.has(triples), None if known is self.trained else known.has(triples)
        of = self._relations
        found = []
        sides: tuple[tuple[Side, NDArray[np.integer], Numbers], ...] = (
            ("tail", heads, of.single_head),
            ("head", tails, of.single_tail),
        )
        for side, anchors, alone in sides:
            trained = self.trained.answers(side).counts(anchors, relations) - itself
            if now is not None:
                others = known.answers(side).counts(anchors, relations) - now
                trained = np.where((alone[relations] >= _MOSTLY) | (trained == 0), others, trained)
            found.append(trained)
        return tuple(found)


def _standing(scores: NDArray[np.float32], values: NDArray[np.float32]) -> tuple[Numbers, Numbers]:
    """How scores (n,) stand among the candidates whose levels are values (n, 7): the lead over the best other one,
    negative where another is ahead, and −log₂ of the rank, as near as the levels say."""
    levels = values[:, : len(PLACES)]
    # A candidate meets itself among the levels, computed in another way.
    slack = 1e-4 * (1 + np.abs(scores))
    ahead = (levels > (scores + slack)[:, None]).sum(1)
    lead = scores - np.where(ahead == 0, levels[:, 1], levels[:, 0])
    return np.minimum(lead, 1e6), np.where(np.isnan(levels[:, 0]), np.nan, -_FALLEN[ahead])
