"""A model with its weights: the scorer that a training makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from transher.deadline import slices
from transher.devices import Place
from transher.graph.graph import Side
from transher.kernels import Chunk, Known
from transher.models.model import Asked, Model, Query
from transher.scorer import SCORES, Scorer, asked_columns, distinct_queries

# Candidate rows, and the scores of one chunk of candidates: 16 MB each.
CHUNK = 1 << 22
# Rows of the candidates of their own that some queries have: 32 MB.
_OWN = 1 << 23
# A query is repeated beside each of its own candidates; some 2 MB of that at a time stay in the processor's cache.
PAIRED = 1 << 19
_TRIPLES = 1 << 12  # scored at a time
TOGETHER = 16  # triples that torch computes alike
_FEW = 512  # triples of a question: threads that share them would wait for each other longer than they compute
_SHARED = 1 << 15  # numbers from which on torch shares an operation among threads


class Held(NamedTuple):
    """The tables that scores are computed from, and the device that computes them. Entities may lie elsewhere, and are
    then copied to it chunk by chunk."""

    entities: Tensor
    relations: Tensor
    device: torch.device
    seen: bool  # whether entities are as the score sees them


@dataclass(frozen=True, repr=False)
class Embeddings(Scorer):
    """`entity_weights`: (entities, d) raw rows; `relation_weights`: (relations, w) raw rows, twice as many with
    reciprocal relations, where (?, r, t) is asked as (t, r⁻¹, ?) and r⁻¹ has the row `relations + r`.

    Ids come from the CPU and scores go there, whatever computes them."""

    model: Model
    entity_weights: Tensor
    relation_weights: Tensor
    reciprocal: bool = False
    seen_rows: Tensor | None = None  # entity rows as the score sees them, once `prepared`
    held: Held | None = None  # where scores are computed from other tables than the weights, once `on` a device

    def __repr__(self) -> str:
        shapes = (f"{tuple(weights.shape)}" for weights in (self.entity_weights, self.relation_weights))
        return "<Embeddings: {}, entities {}, relations {}>".format(self.model.title, *shapes)

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

    def on(self, place: Place) -> Embeddings:
        """The same scores, computed on a device, from tables that lie where `place` says."""
        if place.device == self.entity_weights.device:
            return self
        tables = self.entity_weights.to(place.home), self.relation_weights.to(place.device)
        return replace(self, seen_rows=None, held=Held(*tables, place.device, seen=False))

    @property
    def nbytes(self) -> int:
        """Of both tables."""
        return self.entity_weights.nbytes + self.relation_weights.nbytes

    @property
    def device(self) -> torch.device:
        """What computes scores."""
        return self._tables.device

    @property
    def _tables(self) -> Held:
        if self.held is not None:
            return self.held
        seen = self.seen_rows is not None
        entities = self.entity_weights if self.seen_rows is None else self.seen_rows
        return Held(entities, self.relation_weights, self.entity_weights.device, seen)

    def _rows(self, ids: Tensor | slice) -> Tensor:
        """As `rows`, on the device that computes."""
        tables = self._tables
        at = ids.to(tables.entities.device) if isinstance(ids, Tensor) else ids
        rows = tables.entities[at].to(tables.device)
        return rows if tables.seen else self.model.entities(rows)

    def _query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        """As `query`, on the device that computes."""
        rows, side = asked_as(relations, side, self.relation_count, self.reciprocal)
        table = self._tables.relations
        return self.model.query(self._rows(anchors), table[rows.to(table.device)], side)

    def _chunks(self, width: int = 0) -> Iterator[Chunk]:
        """As `chunks`, on the device that computes."""
        for part in slices(self.entity_count, max(1, CHUNK // max(width, self.model.entity_width))):
            yield part.start, self._rows(part)

    def rows(self, ids: Tensor | slice = slice(None)) -> Tensor:
        """Entity rows as the score sees them, (N, d). Asking for all at once copies the table, unless prepared."""
        if self.seen_rows is not None:
            return self.seen_rows[ids]
        return self.model.entities(self.entity_weights[ids])

    @torch.no_grad()
    def prepared(self) -> Embeddings:
        """The same scores for a server: a second table holds the entities as they are seen, so that a query reads it
        once and computes nothing else."""
        if self._tables.seen or type(self.model).entities is Model.entities:
            return self
        if self.held is not None:
            entities = torch.empty_like(self.held.entities)
            for start, rows in self._chunks():
                entities[start : start + len(rows)] = rows
            return replace(self, held=self.held._replace(entities=entities, seen=True))
        seen = torch.empty_like(self.entity_weights, memory_format=torch.contiguous_format)
        for start, rows in self.chunks():
            seen[start : start + len(rows)] = rows
        return replace(self, seen_rows=seen)

    def chunks(self, width: int = 0) -> Iterator[Chunk]:
        """All entities in order, as (first id, seen rows); a chunk has some 4 million numbers in rows of d or `width`,
        whichever is more."""
        for part in slices(self.entity_count, max(1, CHUNK // max(width, self.model.entity_width))):
            yield part.start, self.rows(part)

    @torch.no_grad()
    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        """As in Scorer; candidates go by in chunks."""
        query = self._query(anchors, relations, side)
        count = self.entity_count if candidates is None else len(candidates)
        scores = torch.empty(len(anchors), count)
        for part in slices(count, max(1, CHUNK // max(len(anchors), self.model.entity_width))):
            scores[:, part] = self.model.cross(query, self._rows(part if candidates is None else candidates[part]))
        return scores

    @torch.no_grad()
    def score_own(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor) -> Tensor:
        """As in Scorer; each distinct candidate of some queries is seen once."""
        scores = torch.empty(candidates.shape)
        size = max(1, _OWN // max(1, candidates.shape[1] * self.model.entity_width))
        for part in slices(len(scores), size):
            distinct, own = torch.unique(candidates[part], return_inverse=True)
            query = self._query(anchors[part], relations[part], side)
            scores[part] = _score_own(self.model, query, self._rows(distinct), own.to(query[0].device)).cpu()
        return scores

    @torch.no_grad()
    def score_triples(self, triples: Tensor, side: Side = "tail") -> Tensor:
        """As in Scorer."""
        # Torch computes the last few rows of a batch in another way than the others (HolE, TransR). With rows added at
        # the end, the score of a triple has the same bits in any batch.
        padded = torch.cat([triples, triples[:1].expand(-len(triples) % TOGETHER, 3)]).long()
        scores = torch.empty(len(padded))
        alone = max(1, (_SHARED - 1) // self.model.entity_width // TOGETHER) * TOGETHER
        for part in slices(len(padded), alone if len(padded) <= _FEW else _TRIPLES):
            anchors, relations, answers = asked_columns(padded[part], side)
            scores[part] = self.model.pairs(self._query(anchors, relations, side), self._rows(answers)).cpu()
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
        query = self._query(anchors, relations, side)
        hidden = (excluded or Known.none(len(anchors))).to(self._tables.device)
        scores, ids = self.model.best(query, self._chunks(), count, hidden)
        return scores.cpu(), ids.cpu()

    @torch.no_grad()
    def count_better(
        self, anchors: Tensor, relations: Tensor, answers: Tensor, side: Side, known: Known
    ) -> tuple[Tensor, Tensor]:
        """As in Scorer, by the model's own way of counting."""
        queries, query_of, known = distinct_queries(anchors, relations, known)
        device = self._tables.device
        asked = Asked(query_of.to(device), answers.to(device), self._rows(answers))
        width = len(queries[0]) if self.model.holds_scores else 0
        query = self._query(*queries, side)
        better, tied = self.model.count_better(query, asked, self._chunks(width), known.to(device))
        return better.cpu(), tied.cpu()


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
    scores = rows.new_empty(own.shape)
    for part in slices(len(own), max(1, PAIRED // max(1, own.shape[1] * width))):
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
