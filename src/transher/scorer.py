"""A scorer: anything that gives a score to every candidate of a query. Embeddings are one; rules and blends are others.

Evaluation, answering, completion and serving know nothing else. A new kind of scorer has to say how many entities and
relations it has, and its `scores`; all that is slow that way has a default that it may replace.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from transher.deadline import slices
from transher.errors import TransherError
from transher.graph.graph import Side
from transher.graph.known import KnownAnswers
from transher.kernels import Known, merge_best

# Scores of some queries against all entities: 64 MB in single precision.
SCORES = 1 << 24
# Scores compared at a time: 1 MB, which stays in the processor's cache.
_COMPARED = 1 << 18


class Scored(NamedTuple):
    """What triples (n, 3) score, each part computed once: `whole` (n,) is what `score` gives, `dense` (n,) what the
    dense part gives, and `rules` are what `Rules.strengths` gives; None of what the scorer does not have."""

    whole: Tensor
    dense: Tensor | None = None
    rules: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    def take(self, part: slice | NDArray[np.integer]) -> Scored:
        """Of some of the triples."""
        dense = None if self.dense is None else self.dense[part]
        return Scored(
            self.whole[part], dense, None if self.rules is None else (self.rules[0][part], self.rules[1][part])
        )


class Scorer(ABC):
    """Scores by id. anchors and relations are int64 (B,), and `side` is the end that is asked for. Higher is better."""

    @property
    @abstractmethod
    def entity_count(self) -> int: ...

    @property
    @abstractmethod
    def relation_count(self) -> int: ...

    @property
    def sides_differ(self) -> bool:
        """Whether a triple has one score as an answer to (h, r, ?) and another as an answer to (?, r, t)."""
        return False

    @property
    def parts(self) -> tuple[Scorer, ...]:
        """The scorers that this one is made of: itself, unless it blends others."""
        return (self,)

    @property
    def dense(self) -> bool:
        """Whether any candidate costs about the same, so that all pairs of a graph can be gone through. Rules are not:
        they follow paths."""
        return True

    @property
    def dense_part(self) -> Scorer | None:
        """What of it is dense: itself, or its dense members as a blend of their own; None without any."""
        return self if self.dense else None

    @abstractmethod
    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        """Scores (B, N) of B queries against the candidates (N,), which are all entities unless given. The caller may
        write into them."""

    def score_own(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor) -> Tensor:
        """Scores (B, m) of B queries, each against candidates of its own (B, m)."""
        rows = zip(anchors.split(1), relations.split(1), candidates, strict=True)
        parts = [self.scores(anchor, relation, side, own) for anchor, relation, own in rows]
        return torch.cat(parts) if parts else torch.empty(candidates.shape)

    def score_triples(self, triples: Tensor, side: Side = "tail") -> Tensor:
        """Scores (n,) of triples (n, 3) as answers for `side`. A triple's score must not depend on the others."""
        anchors, relations, answers = asked_columns(triples.long(), side)
        scores = torch.empty(len(triples))
        queries, query_of = torch.unique(torch.stack([anchors, relations], 1), dim=0, return_inverse=True)
        order = torch.argsort(query_of)
        own = order.split(torch.bincount(query_of, minlength=len(queries)).tolist())
        for (anchor, relation), chosen in zip(queries[:, :, None], own, strict=True):
            scores[chosen] = self.scores(anchor, relation, side, answers[chosen])[0]
        return scores

    def score(self, triples: Tensor) -> Tensor:
        """The one score (n,) of triples (n, 3), whatever was asked: that of tails, or the mean of both sides where they
        differ."""
        scores = self.score_triples(triples, "tail")
        return (scores + self.score_triples(triples, "head")) / 2 if self.sides_differ else scores

    def scored(self, triples: Tensor) -> Scored:
        """The one score of triples (n, 3), and those of its parts that a judge looks at."""
        whole = self.score(triples)
        return Scored(whole, whole if self.dense else None)

    @property
    def queries_at_a_time(self) -> int:
        """How many queries `count_better` and `best` take in bounded memory."""
        return max(1, SCORES // max(1, self.entity_count))

    def best(
        self, anchors: Tensor, relations: Tensor, side: Side, count: int, excluded: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """Scores and ids (B, count) of the best candidates that are not excluded, best first; equal scores by ascending
        id. Where there are fewer candidates, the rest is −inf and −1."""
        excluded = excluded or Known.none(len(anchors))
        last = torch.iinfo(torch.int64).max
        parts = []
        for part in slices(len(anchors), self.queries_at_a_time):
            scores = self.scores(anchors[part], relations[part], side)
            hidden = Known(excluded.starts[part], excluded.ends[part], excluded.ids)
            nothing = torch.full((len(scores), count), -torch.inf), torch.full((len(scores), count), last)
            parts.append(merge_best(scores, 0, hidden, *nothing))
        if not parts:
            return torch.empty(0, count), torch.empty(0, count, dtype=torch.int64)
        ids = torch.cat([found for _, found in parts])
        return torch.cat([scores for scores, _ in parts]), ids.masked_fill(ids == last, -1)

    def count_better(
        self, anchors: Tensor, relations: Tensor, answers: Tensor, side: Side, known: Known
    ) -> tuple[Tensor, Tensor]:
        """How many entities, other than the answer (B,) and the known answers, score above it and how many the same:
        int64 (B,), (B,). B is at most `queries_at_a_time`."""
        queries, query_of, known = distinct_queries(anchors, relations, known)
        return count_in_matrix(self.scores(*queries, side), query_of, answers, known)


def asked_columns(triples: Tensor, side: Side) -> tuple[Tensor, Tensor, Tensor]:
    """Anchors, relations and answers (n,) of triples (n, 3) when `side` is asked for."""
    heads, relations, tails = triples.unbind(1)
    return (heads, relations, tails) if side == "tail" else (tails, relations, heads)


def as_known(index: KnownAnswers, anchors: NDArray[Any], relations: NDArray[Any]) -> Known:
    """The known answers of B queries, by reference into the index."""
    starts, ends = (torch.from_numpy(bounds) for bounds in index.ranges(anchors, relations))
    return Known(starts, ends, torch.from_numpy(index.answers))


def distinct_queries(anchors: Tensor, relations: Tensor, known: Known) -> tuple[tuple[Tensor, Tensor], Tensor, Known]:
    """Each query once: anchors and relations (D,), which of them each of the B queries is, and their known answers."""
    distinct, query_of = torch.unique(torch.stack([anchors, relations], 1), dim=0, return_inverse=True)
    first = torch.empty_like(query_of[: len(distinct)])
    first[query_of] = torch.arange(len(anchors), device=anchors.device)  # any of its occurrences
    return (distinct[:, 0], distinct[:, 1]), query_of, Known(known.starts[first], known.ends[first], known.ids)


def count_in_matrix(scores: Tensor, query_of: Tensor, answers: Tensor, known: Known) -> tuple[Tensor, Tensor]:
    """As `Scorer.count_better`, from the scores (D, entities) of distinct queries, of which `query_of` (B,) names one
    for each answer (B,). The answer's score comes from the same matrix as its rivals', so equal candidates tie exactly.
    Writes into `scores`."""
    refuse_nan(scores)
    own = scores[query_of, answers]
    # A removed candidate becomes NaN, which is neither better than anything nor equal to anything.
    scores[known.pairs()] = torch.nan
    return count_rivals(scores, query_of, own, answers)


def count_rivals(scores: Tensor, rows: Tensor, own: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """How many scores in the rows (n,) of a matrix (D, candidates) are above the answers' own (n,), and how many the
    same, the answers themselves aside: those in the columns `ids` (n,), or −1 where an answer is in none."""
    count = _count_by_numpy if scores.device.type == "cpu" else _count_on_device
    return count(scores, rows, own, ids)


def _count_by_numpy(scores: Tensor, rows: Tensor, own: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """NumPy counts true values as they are; torch's sum first copies each to eight bytes, and takes far longer."""
    matrix, limits, columns = scores.numpy(), own.numpy(), ids.numpy()
    better, tied = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for part in slices(len(rows), max(1, _COMPARED // max(1, matrix.shape[1]))):
        rivals = matrix[rows[part].numpy()]
        here = np.flatnonzero(columns[part] >= 0)
        rivals[here, columns[part][here]] = np.nan
        better[part] = np.count_nonzero(rivals > limits[part, None], axis=1)
        tied[part] = np.count_nonzero(rivals == limits[part, None], axis=1)
    return torch.from_numpy(better), torch.from_numpy(tied)


def _count_on_device(scores: Tensor, rows: Tensor, own: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Where the scores lie; all else is there, too."""
    better, tied = torch.empty_like(ids), torch.empty_like(ids)
    # An answer that is in no column has one more, at the end.
    columns = torch.where(ids < 0, scores.shape[1], ids)
    for part in slices(len(rows), max(1, SCORES // max(1, scores.shape[1]))):
        rivals = pad(scores[rows[part]], (0, 1)).scatter_(1, columns[part, None], torch.nan)
        rivals[:, -1] = torch.nan
        limits = own[part, None]
        better[part], tied[part] = (rivals > limits).sum(1), (rivals == limits).sum(1)
    return better, tied


def known_answers(known: Known, query_of: Tensor, answers: Tensor) -> Tensor:
    """Whether each answer (n,) is among the known ones of its query: bool (n,). `query_of` (n,) names the query."""
    own = Known(known.starts[query_of], known.ends[query_of], known.ids)
    asked, ids = own.pairs()
    found = torch.zeros(len(answers), dtype=torch.bool, device=answers.device)
    found[asked[ids == answers[asked]]] = True
    return found


def refuse_nan(scores: Tensor) -> None:
    """NaN compares as false with everything, so a broken model would seem to rank every answer first."""
    if scores.numel() and bool(scores.amax().isnan()):
        raise TransherError(
            "The model gives scores that are not a number (NaN), so its answers cannot be ranked. Its training has "
            "diverged: train again with a smaller learning rate, or go back to an earlier checkpoint."
        )
