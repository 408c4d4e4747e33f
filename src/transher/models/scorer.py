"""A model with its weights: the one place where ids become scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transher.deadline import check_deadline
from transher.kernels import Chunk
from transher.models.model import Model, Query, Side


@dataclass(frozen=True)
class Scorer:
    """Scores by id. `entity_weights`: (entities, d) raw rows; `relation_weights`: (relations, w) raw rows, twice as
    many with reciprocal relations, where (?, r, t) is asked as (t, r⁻¹, ?) and r⁻¹ has the row `relation_count + r`."""

    model: Model
    entity_weights: Tensor
    relation_weights: Tensor
    relation_count: int
    reciprocal: bool = False
    seen_rows: Tensor | None = None  # entity rows as the score sees them, once `prepared`

    @property
    def entity_count(self) -> int:
        return len(self.entity_weights)

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        """anchors, relations: ids (B,) → the query that asks for `side`."""
        rows, side = asked_as(relations, side, self.relation_count, self.reciprocal)
        return self.model.query(self.candidates(anchors), self.relation_weights[rows], side)

    def candidates(self, ids: Tensor | slice = slice(None)) -> Tensor:
        """Entity rows as the score sees them, (N, d). Asking for all at once copies the table, unless prepared."""
        if self.seen_rows is not None:
            return self.seen_rows[ids]
        return self.model.entities(self.entity_weights[ids])

    @torch.no_grad()
    def prepared(self) -> Scorer:
        """The same scores, for whoever asks often: a second table holds the entities as they are seen, so that a query
        reads it once and computes nothing else."""
        if self.seen_rows is not None or type(self.model).entities is Model.entities:
            return self
        seen = torch.empty_like(self.entity_weights, memory_format=torch.contiguous_format)
        for start, rows in self.chunks():
            seen[start : start + len(rows)] = rows
        return replace(self, seen_rows=seen)

    def chunks(self, values: int = 1 << 22) -> Iterator[Chunk]:
        """All entities in order, as (first id, seen rows) of at most `values` numbers."""
        for part in slices(self.entity_count, max(1, values // self.model.entity_width)):
            yield part.start, self.candidates(part)

    @torch.no_grad()
    def scores(self, anchors: Tensor, relations: Tensor, side: Side, chunk: int = 1 << 15) -> Tensor:
        """Scores (B, entities) of every entity on the asked side; candidates go by in chunks."""
        query = self.query(anchors, relations, side)
        scores = torch.empty(len(anchors), self.entity_count)
        for part in slices(self.entity_count, chunk):
            scores[:, part] = self.model.cross(query, self.candidates(part))
        return scores

    @torch.no_grad()
    def score_triples(self, triples: Tensor, side: Side = "tail", chunk: int = 1 << 12) -> Tensor:
        """triples: ids (n, 3) → scores (n,). With reciprocal relations the two sides differ: `side` chooses."""
        parts = [self._score_chunk(part, side) for part in triples.split(chunk)]
        return torch.cat(parts) if parts else torch.empty(0)

    def _score_chunk(self, triples: Tensor, side: Side) -> Tensor:
        head, relation, tail = triples.long().unbind(1)
        anchor, answer = (head, tail) if side == "tail" else (tail, head)
        return self.model.pairs(self.query(anchor, relation, side), self.candidates(answer))


def asked_as(relations: Tensor, side: Side, relation_count: int, reciprocal: bool) -> tuple[Tensor, Side]:
    """Rows of the relation table and the side under which the model is asked."""
    if reciprocal and side == "head":
        return relations + relation_count, "tail"
    return relations, side


def slices(count: int, size: int) -> Iterator[slice]:
    """0…count in consecutive slices of at most `size`; between them, whoever has a deadline is held to it."""
    for start in range(0, count, size):
        check_deadline()
        yield slice(start, min(start + size, count))
