"""A model with its weights: the scorer that a training makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transher.deadline import slices
from transher.graph.graph import Side
from transher.kernels import Chunk, Known
from transher.models.model import Asked, Model, Query
from transher.scorer import SCORES, Scorer, asked_columns, distinct_queries

# Candidate rows, and the scores of one chunk of candidates: 16 MB each.
_CHUNK = 1 << 22
# Rows of the candidates of their own that some queries have: 32 MB.
_OWN = 1 << 23
# A query is repeated beside each of its own candidates; some 2 MB of that at a time stay in the processor's cache.
_PAIRED = 1 << 19
_TRIPLES = 1 << 12  # scored at a time
_TOGETHER = 16  # triples that torch computes alike


@dataclass(frozen=True)
class Embeddings(Scorer):
    """`entity_weights`: (entities, d) raw rows; `relation_weights`: (relations, w) raw rows, twice as many with
    reciprocal relations, where (?, r, t) is asked as (t, r⁻¹, ?) and r⁻¹ has the row `relations + r`."""

    model: Model
    entity_weights: Tensor
    relation_weights: Tensor
    reciprocal: bool = False
    seen_rows: Tensor | None = None  # entity rows as the score sees them, once `prepared`

    @property
    def entity_count(self) -> int:
        return len(self.entity_weights)

    @property
    def relation_count(self) -> int:
        return len(self.relation_weights) // (2 if self.reciprocal else 1)

    @property
    def sides_differ(self) -> bool:
        return self.reciprocal

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        """anchors, relations: ids (B,) → the query that asks for `side`."""
        rows, side = asked_as(relations, side, self.relation_count, self.reciprocal)
        return self.model.query(self.rows(anchors), self.relation_weights[rows], side)

    def rows(self, ids: Tensor | slice = slice(None)) -> Tensor:
        """Entity rows as the score sees them, (N, d). Asking for all at once copies the table, unless prepared."""
        if self.seen_rows is not None:
            return self.seen_rows[ids]
        return self.model.entities(self.entity_weights[ids])

    @torch.no_grad()
    def prepared(self) -> Embeddings:
        """The same scores for a server: a second table holds the entities as they are seen, so that a query reads it
        once and computes nothing else."""
        if self.seen_rows is not None or type(self.model).entities is Model.entities:
            return self
        seen = torch.empty_like(self.entity_weights, memory_format=torch.contiguous_format)
        for start, rows in self.chunks():
            seen[start : start + len(rows)] = rows
        return replace(self, seen_rows=seen)

    def chunks(self, width: int = 0) -> Iterator[Chunk]:
        """All entities in order, as (first id, seen rows); a chunk has some 4 million numbers in rows of d or `width`,
        whichever is more."""
        for part in slices(self.entity_count, max(1, _CHUNK // max(width, self.model.entity_width))):
            yield part.start, self.rows(part)

    @torch.no_grad()
    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        """As in Scorer; candidates go by in chunks."""
        query = self.query(anchors, relations, side)
        count = self.entity_count if candidates is None else len(candidates)
        scores = torch.empty(len(anchors), count)
        for part in slices(count, max(1, _CHUNK // max(len(anchors), self.model.entity_width))):
            scores[:, part] = self.model.cross(query, self.rows(part if candidates is None else candidates[part]))
        return scores

    @torch.no_grad()
    def score_own(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor) -> Tensor:
        """As in Scorer; each distinct candidate of some queries is seen once."""
        scores = torch.empty(candidates.shape)
        size = max(1, _OWN // max(1, candidates.shape[1] * self.model.entity_width))
        for part in slices(len(scores), size):
            distinct, own = torch.unique(candidates[part], return_inverse=True)
            query = self.query(anchors[part], relations[part], side)
            scores[part] = _score_own(self.model, query, self.rows(distinct), own)
        return scores

    @torch.no_grad()
    def score_triples(self, triples: Tensor, side: Side = "tail") -> Tensor:
        """As in Scorer."""
        # Torch computes the last few rows of a batch in another way than the others (HolE, TransR). With rows added at
        # the end, the score of a triple has the same bits in any batch.
        padded = torch.cat([triples, triples[:1].expand(-len(triples) % _TOGETHER, 3)]).long()
        scores = torch.empty(len(padded))
        for part in slices(len(padded), _TRIPLES):
            anchors, relations, answers = asked_columns(padded[part], side)
            scores[part] = self.model.pairs(self.query(anchors, relations, side), self.rows(answers))
        return scores[: len(triples)]

    @property
    def queries_at_a_time(self) -> int:
        """As in Scorer: neither the scores nor the relations' rows may outgrow the memory."""
        held = self.entity_count if self.model.holds_scores else 1
        return max(1, SCORES // max(held, self.model.relation_width))

    @torch.no_grad()
    def best(
        self, anchors: Tensor, relations: Tensor, side: Side, count: int, excluded: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        """As in Scorer; the table of entities goes by in chunks."""
        query = self.query(anchors, relations, side)
        return self.model.best(query, self.chunks(), count, excluded or Known.none(len(anchors)))

    @torch.no_grad()
    def count_better(
        self, anchors: Tensor, relations: Tensor, answers: Tensor, side: Side, known: Known
    ) -> tuple[Tensor, Tensor]:
        """As in Scorer, by the model's own way of counting."""
        queries, query_of, known = distinct_queries(anchors, relations, known)
        asked = Asked(query_of, answers, self.rows(answers))
        width = len(queries[0]) if self.model.holds_scores else 0
        return self.model.count_better(self.query(*queries, side), asked, self.chunks(width), known)


def embeddings_of(scorer: Scorer) -> Embeddings | None:
    """The vectors behind a scorer's scores, for maps and similar entities; None where there are none."""
    return next((part for part in scorer.parts if isinstance(part, Embeddings)), None)


def asked_as(relations: Tensor, side: Side, relation_count: int, reciprocal: bool) -> tuple[Tensor, Side]:
    """Rows of the relation table and the side under which the model is asked."""
    if reciprocal and side == "head":
        return relations + relation_count, "tail"
    return relations, side


def _score_own(model: Model, query: Query, rows: Tensor, own: Tensor) -> Tensor:
    """Scores (b, m) of query i against `rows[own[i]]`, some queries at a time."""
    width = max(part.shape[1] for part in query)
    # A query as wide as a matrix (TransR) costs too much to repeat, and is crossed with its candidates instead.
    score, width = (_crossed, width) if width > 8 * rows.shape[1] else (_repeated, rows.shape[1])
    scores = torch.empty(own.shape)
    for part in slices(len(own), max(1, _PAIRED // max(1, own.shape[1] * width))):
        scores[part] = score(model, tuple(values[part] for values in query), rows, own[part])
    return scores


def _repeated(model: Model, query: Query, rows: Tensor, own: Tensor) -> Tensor:
    """Scores (b, m) by pairs: query i beside each of `rows[own[i]]`."""
    repeated = tuple(part.repeat_interleave(own.shape[1], 0) for part in query)
    return model.pairs(repeated, rows[own.view(-1)]).view(own.shape)


def _crossed(model: Model, query: Query, rows: Tensor, own: Tensor) -> Tensor:
    """Scores (b, m), one query at a time against `rows[own[i]]`."""
    one_by_one = (tuple(part[i : i + 1] for part in query) for i in range(len(own)))
    return torch.cat([model.cross(one, rows[mine]) for one, mine in zip(one_by_one, own, strict=True)])
