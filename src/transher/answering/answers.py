"""Answers by ids: the best heads, tails or relations for what is given, and what single triples are worth.

The score and the probability of a triple depend on the triple alone: they are the same whether its head, its tail or
its relation was asked for, alone or among others. The scorer proposes candidates for the side that is asked; then every
candidate gets its own score (`Scorer.score`) and its probability (`transher.answering.judge`), by which answers are
ordered; without a judge they are ordered by score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from transher.answering.judge import Judge
from transher.answering.predicted import Predicted
from transher.deadline import check_deadline, slices
from transher.errors import UsageError
from transher.graph.graph import Graph, Side
from transher.graph.known import KnownTriples
from transher.models.embeddings import embeddings_of
from transher.rules import Rules, rules_of
from transher.scorer import Scored, Scorer, as_known, refuse_nan

Ids = NDArray[np.integer]
WhatIsKnown = Literal["hide", "mark"]  # leave out what the graph has, or say so

# Candidates beyond those that are asked for: the judge's order is not the scorer's.
_MORE = 44
_RANKED = 10  # answers among which a rank is by probability: they come from the same candidates as the first ten


class Question(NamedTuple):
    """Two of head, relation and tail, by ids, ask for the third; all three ask what the triple is worth."""

    head: int | None
    relation: int | None
    tail: int | None
    top: int = 10
    known: WhatIsKnown = "mark"
    missing_share: float | None = None


class Answering:
    """A scorer, its graph and its judge: all that is needed to answer. There is no judge where nothing was held out to
    fit one on."""

    def __init__(self, scorer: Scorer, graph: Graph, judge: Judge | None) -> None:
        self.scorer, self.graph, self.judge = scorer, graph, judge

    @property
    def rules(self) -> Rules | None:
        """The rules that the judge knows, or that are part of the scorer."""
        return rules_of(self.scorer) if self.judge is None else self.judge.describer.rules

    def prepare(self) -> None:
        """Make every index now, for a server whose first answer should not wait."""
        for triples in (self.graph.known, self.graph.trained):
            triples.steps(np.arange(0))
        self.known.edges(0)
        _ = self.graph.ends
        if self.judge is not None:
            self.judge.log_odds(self.graph.train[:1])

    @property
    def known(self) -> KnownTriples:
        return self.graph.known

    def answer(self, questions: Sequence[Question]) -> list[Predicted]:
        """The answers to each question, best first. Those for the same side go by the table of entities together."""
        answers = [Predicted.none()] * len(questions)
        together: dict[tuple[Side, WhatIsKnown, float | None, int], list[tuple[int, int, int]]] = {}
        for place, question in enumerate(questions):
            check_deadline()
            if question.top < 1:
                raise UsageError(f"top must be at least 1, not {question.top}.")
            match question.head, question.relation, question.tail:
                case (int(anchor), int(relation), None):
                    side: Side = "tail"
                case (None, int(relation), int(anchor)):
                    side = "head"
                case (int(head), None, int(tail)):
                    answers[place] = self._relations(head, tail, question)
                    continue
                case (int(head), int(relation), int(tail)):
                    answers[place] = self.judged(np.array([[head, relation, tail]]), question.missing_share)
                    continue
                case _:
                    raise UsageError("give two of head, relation and tail; the third is what is asked for.")
            # By the number of candidates: answers must not depend on what else is asked at the same time.
            key = (side, question.known, question.missing_share, self._candidates(question.top))
            together.setdefault(key, []).append((place, anchor, relation))
        for (side, known, missing_share, _), rows in together.items():
            places, anchors, relations = (np.array(column) for column in zip(*rows, strict=True))
            top = max(questions[place].top for place in places)
            found, offsets = self.best(anchors, relations, side, top, known, missing_share)
            for place, first, last in zip(places.tolist(), offsets, offsets[1:], strict=False):
                answers[place] = found.take(slice(first, min(last, first + questions[place].top)))
        return answers

    def best(
        self, anchors: Ids, relations: Ids, side: Side, top: int,
        known: WhatIsKnown = "mark", missing_share: float | None = None,
    ) -> tuple[Predicted, NDArray[np.int64]]:  # fmt: skip
        """The `top` answers to each of B queries of one side, best first, ragged: those of query i are at the positions
        offsets[i] to offsets[i + 1]. An entity is no answer to a question about itself, unless the relation joins some
        entity with itself."""
        given, of = (torch.from_numpy(np.asarray(ids, dtype=np.int64)) for ids in (anchors, relations))
        count = min(self._candidates(top), self.scorer.entity_count)
        ids = np.empty((len(anchors), count), dtype=np.int64)
        for part in slices(len(anchors), self.scorer.queries_at_a_time):
            hidden = as_known(self.known.answers(side), anchors[part], relations[part]) if known == "hide" else None
            ids[part] = self.scorer.best(given[part], of[part], side, count, hidden)[1].numpy()
            nothing = np.flatnonzero((ids[part] < 0).all(1))  # all is known, or nothing is a number
            if len(nothing):
                refuse_nan(self.scorer.scores(given[part][nothing[:1]], of[part][nothing[:1]], side))
        query, _ = np.nonzero(ids >= 0)
        found, anchor = ids[ids >= 0], np.asarray(anchors)[query]
        heads, tails = (anchor, found) if side == "tail" else (found, anchor)
        triples = np.stack([heads, np.asarray(relations)[query], tails], 1)
        plausible = self.graph.ends.plausible(triples)
        query, found, predicted = query[plausible], found[plausible], self.judged(triples[plausible], missing_share)
        order = np.lexsort((found, -predicted.scores, -predicted.worth, query))
        query = query[order]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        offsets = np.searchsorted(query[rank < top], np.arange(len(anchors) + 1))
        return predicted.take(order[rank < top]), offsets

    def judged(self, triples: Ids, missing_share: float | None = None) -> Predicted:
        """Triples (n, 3) in the order that they have, with what they are worth."""
        given = torch.from_numpy(np.asarray(triples, dtype=np.int64))
        found = Scored(self.scorer.score(given)) if self.judge is None else self.scorer.scored(given)
        refuse_nan(found.whole)
        scores = found.whole.numpy()
        log_odds = None if self.judge is None else self.judge.log_odds(triples, missing_share, found)
        return Predicted(triples.astype(np.int32), scores, log_odds, self.known.has(triples))

    def rank(self, triple: tuple[int, int, int], side: Side) -> int:
        """The rank of a triple as an answer for `side`: 1 + how many answers that the graph lacks are better, in the
        order of `best`; or by score alone, beyond its first answers."""
        ahead = self._ahead(triple, side) if self.judge is not None else _RANKED
        return 1 + (ahead if ahead < _RANKED else self._ahead_by_score(triple, side))

    def _ahead(self, triple: tuple[int, int, int], side: Side) -> int:
        """How many of the first answers that the graph lacks are better."""
        head, relation, tail = triple
        anchor, answer = (head, tail) if side == "tail" else (tail, head)
        others, _ = self.best(np.array([anchor]), np.array([relation]), side, _RANKED, known="hide")
        own = self.judged(np.array([triple]))
        found = others.triples[:, 2 if side == "tail" else 0]
        same = (others.worth == own.worth) & (found != answer)
        tied = same & (others.scores == own.scores)
        better = (others.worth > own.worth) | (same & (others.scores > own.scores)) | (tied & (found < answer))
        return int(better.sum())

    def _ahead_by_score(self, triple: tuple[int, int, int], side: Side) -> int:
        head, relation, tail = triple
        anchor, answer = (head, tail) if side == "tail" else (tail, head)
        given, of = torch.tensor([anchor]), torch.tensor([relation])
        scores = self.scorer.scores(given, of, side)[0].numpy()
        if self.scorer.sides_differ:
            triples = torch.tensor([triple]).repeat(len(scores), 1)
            triples[:, 2 if side == "tail" else 0] = torch.arange(len(scores))
            scores = scores + self.scorer.score_triples(triples, "head" if side == "tail" else "tail").numpy()
        better = scores > scores[answer]
        better[self.known.answers(side).of(np.array([anchor]), np.array([relation]))[1]] = False
        better[anchor] &= self.known.has_loops[relation]
        return int(better.sum())

    @torch.no_grad()
    def similar(self, entity: int, top: int) -> list[tuple[int, float]]:
        """The entities whose embeddings point most nearly the same way, with the cosine; none without embeddings."""
        embeddings = embeddings_of(self.scorer)
        best: list[tuple[float, int]] = []
        if embeddings is None:
            return []
        own = torch.nn.functional.normalize(embeddings.rows(torch.tensor([entity])), dim=-1)[0]
        for first, rows in embeddings.chunks():
            cosines = (rows @ own) / rows.norm(dim=-1).clamp_min(1e-12)
            values, places = cosines.topk(min(top + 1, len(rows)))
            best += [(value, first + place) for value, place in zip(values.tolist(), places.tolist(), strict=True)]
        best.sort(key=lambda pair: (-pair[0], pair[1]))
        return [(id, value) for value, id in best if id != entity][:top]

    def _relations(self, head: int, tail: int, question: Question) -> Predicted:
        """Relations are ordered by probability where there is one: their scores are not on one scale."""
        count = len(self.graph.relations)
        triples = np.stack([np.full(count, head), np.arange(count), np.full(count, tail)], 1)
        triples = triples[self.graph.ends.plausible(triples)]
        if question.known == "hide":
            triples = triples[~np.isin(triples[:, 1], self.known.between(head, tail))]
        return self.judged(triples, question.missing_share).ordered().take(slice(question.top))

    def _candidates(self, top: int) -> int:
        """How many candidates the scorer is asked for: a power of two, so that a few more or fewer answers come from
        the same candidates."""
        return 1 << (2 * top + _MORE - 1).bit_length()
