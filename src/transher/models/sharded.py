"""A model whose weights lie in parts, with several workers or in several files: the scorer of a sharded run.

Candidates are scored where they live. Each worker counts, or keeps the best, among its own; counts are then added, and
lists merged. Everything is computed part by part, so that scores, ranks and ties are the same on any number of workers.
All workers ask the same; `Lead` lets one of them ask for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from transher.deadline import slices
from transher.devices import Place
from transher.graph.graph import Side
from transher.kernels import Chunk, Known
from transher.models.embeddings import CHUNK, PAIRED, TOGETHER, asked_as
from transher.models.model import Asked, Model, Query
from transher.scorer import SCORES, Scorer, asked_columns, count_rivals, distinct_queries, known_answers, refuse_nan
from transher.workers import ALONE, Workers

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Pieces:
    """A table of `count` rows. Of this worker's parts: the first id of each, and its rows (n, width). They may lie
    elsewhere than on the device that computes with them."""

    count: int
    width: int
    parts: Sequence[tuple[int, Tensor]]
    most: int  # parts that any worker has
    workers: Workers = ALONE
    device: torch.device = _CPU

    @property
    def nbytes(self) -> int:
        """Of this worker's parts."""
        return sum(rows.nbytes for _, rows in self.parts)

    def on(self, place: Place) -> Pieces:
        """The same rows, where `place` says."""
        parts = [(first, rows.to(place.home)) for first, rows in self.parts]
        return replace(self, parts=parts, device=place.device)

    def of(self, ids: Tensor) -> Tensor:
        """Rows by id (n,), which every worker gets, on its device. Who does not have a row adds zeros, which is
        exact."""
        found = torch.zeros(len(ids), self.width, device=self.device)
        for first, rows in self.parts:
            mine = torch.nonzero((ids >= first) & (ids < first + len(rows)))[:, 0]
            found[mine.to(self.device)] = self.rows(rows, ids[mine] - first)
        return self.workers.total(found)

    def rows(self, rows: Tensor, chosen: Tensor | slice) -> Tensor:
        """Some rows of a part on the device."""
        return rows[chosen.to(rows.device) if isinstance(chosen, Tensor) else chosen].to(self.device)


@dataclass(frozen=True, repr=False)
class ShardedEmbeddings(Scorer):
    """As `Embeddings`, of tables in pieces: ids come from the CPU and scores go there. Between workers, rows and the
    scores of all candidates go from device to device; counts and the best few, which the CPU wants, from there."""

    model: Model
    entity_pieces: Pieces
    relation_pieces: Pieces
    reciprocal: bool = False

    def __repr__(self) -> str:
        return f"<ShardedEmbeddings: {self.model.title}, {self.entity_count:,} entities>"

    @property
    def entity_count(self) -> int:
        return self.entity_pieces.count

    @property
    def relation_count(self) -> int:
        return self.relation_pieces.count // (2 if self.reciprocal else 1)

    @property
    def sides_differ(self) -> bool:
        return self.reciprocal

    @property
    def workers(self) -> Workers:
        return self.entity_pieces.workers

    @property
    def device(self) -> torch.device:
        """What computes scores."""
        return self.entity_pieces.device

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        rows, side = asked_as(relations, side, self.relation_count, self.reciprocal)
        seen = self.model.entities(self.entity_pieces.of(anchors))
        return self.model.query(seen, self.relation_pieces.of(rows), side)

    def _chunks(self, first: int, rows: Tensor, width: int = 0) -> Iterator[Chunk]:
        """The rows of a part as they are seen, some at a time."""
        for part in slices(len(rows), max(1, CHUNK // max(width, self.model.entity_width))):
            yield first + part.start, self._seen(rows, part)

    def _seen(self, rows: Tensor, chosen: Tensor | slice) -> Tensor:
        """Some rows of a part as they are seen, on the device."""
        return self.model.entities(self.entity_pieces.rows(rows, chosen))

    @torch.no_grad()
    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        query = self.query(anchors, relations, side)
        count = self.entity_count if candidates is None else len(candidates)
        scores = torch.zeros(len(anchors), count, device=self.device)
        for first, rows in self.entity_pieces.parts:
            if candidates is None:
                for start, chunk in self._chunks(first, rows, len(anchors)):
                    scores[:, start : start + len(chunk)] = self.model.cross(query, chunk)
                continue
            own = torch.nonzero((candidates >= first) & (candidates < first + len(rows)))[:, 0]
            for places in own.split(max(1, CHUNK // max(len(anchors), self.model.entity_width))):
                seen = self._seen(rows, candidates[places] - first)
                scores[:, places.to(self.device)] = self.model.cross(query, seen)
        return self.workers.total(scores).cpu()

    @torch.no_grad()
    def score_own(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor) -> Tensor:
        query = self.query(anchors, relations, side)
        scores = torch.zeros(candidates.shape, device=self.device)
        width = max(*(part.shape[1] for part in query), self.model.entity_width)
        for first, rows in self.entity_pieces.parts:
            own = torch.nonzero((candidates >= first) & (candidates < first + len(rows)))
            for pairs in own.split(max(TOGETHER, PAIRED // width)):
                # With pairs added at the end, the score of each has the same bits in any company: see score_triples.
                asked, place = torch.cat([pairs, pairs[:1].expand(-len(pairs) % TOGETHER, 2)]).unbind(1)
                seen = self._seen(rows, candidates[asked, place] - first)
                asked, place = asked.to(self.device), place.to(self.device)
                scores[asked, place] = self.model.pairs(tuple(part[asked] for part in query), seen)
        return self.workers.total(scores).cpu()

    def score_triples(self, triples: Tensor, side: Side = "tail") -> Tensor:
        anchors, relations, answers = asked_columns(triples.long(), side)
        parts = [
            self.score_own(anchors[part], relations[part], side, answers[part, None])[:, 0]
            for part in slices(len(triples), max(1, SCORES // max(self.model.relation_width, self.model.entity_width)))
        ]
        return torch.cat(parts) if parts else torch.empty(0)

    @property
    def queries_at_a_time(self) -> int:
        held = -(-self.entity_count // self.workers.count) if self.model.holds_scores else 1
        return max(1, SCORES // max(held, self.model.relation_width))

    @torch.no_grad()
    def best(
        self, anchors: Tensor, relations: Tensor, side: Side, count: int, excluded: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        excluded = (excluded or Known.none(len(anchors))).to(self.device)
        query = self.query(anchors, relations, side)
        scores = torch.full((self.entity_pieces.most, len(anchors), count), -torch.inf, dtype=torch.float64)
        ids = torch.full(scores.shape, self.entity_count, dtype=torch.float64)  # exact below 2^53
        for place, (first, rows) in enumerate(self.entity_pieces.parts):
            best, found = self.model.best(query, self._chunks(first, rows), count, excluded)
            scores[place], ids[place] = best.cpu(), found.masked_fill(found < 0, self.entity_count).cpu()
        everyone = self.workers.gather(torch.stack([scores, ids]).reshape(-1))
        lists = everyone.view(self.workers.count, 2, self.entity_pieces.most, len(anchors), count)
        scores, ids = lists.permute(1, 3, 0, 2, 4).reshape(2, len(anchors), -1)
        order = torch.argsort(ids, dim=1, stable=True)
        order = order.gather(1, torch.argsort(-scores.gather(1, order), dim=1, stable=True))[:, :count]
        found = ids.gather(1, order).long()
        return scores.gather(1, order).float(), found.masked_fill(found == self.entity_count, -1)

    @torch.no_grad()
    def count_better(
        self, anchors: Tensor, relations: Tensor, answers: Tensor, side: Side, known: Known
    ) -> tuple[Tensor, Tensor]:
        """As in Scorer. A worker needs those of the known answers that are among its own candidates."""
        queries, query_of, known = distinct_queries(anchors, relations, known)
        query = self.query(*queries, side)
        count = self._count_in_matrix if self.model.holds_scores else self._count_by_kernel
        counts = torch.stack(count(query, query_of, answers, known))
        better, tied = self.workers.total(counts)
        return better, tied

    def _count_by_kernel(self, query: Query, query_of: Tensor, answers: Tensor, known: Known) -> tuple[Tensor, Tensor]:
        """By the model's own way of counting, which takes it that the answer is among the candidates."""
        seen = self.model.entities(self.entity_pieces.of(answers))
        asked = Asked(query_of.to(self.device), answers.to(self.device), seen)
        chunks = (chunk for first, rows in self.entity_pieces.parts for chunk in self._chunks(first, rows))
        better, tied = self.model.count_better(query, asked, chunks, known.to(self.device))
        # An answer of another worker has not been met here, and has not tied with itself.
        return better.cpu(), tied.cpu() + (~self._mine(answers) & ~known_answers(known, query_of, answers)).long()

    def _count_in_matrix(self, query: Query, query_of: Tensor, answers: Tensor, known: Known) -> tuple[Tensor, Tensor]:
        """From the scores of all of this worker's candidates. That of an answer comes from its own worker's."""
        first, mine = self._first, self._mine(answers)
        chunks = [
            self.model.cross(query, rows)
            for start, part in self.entity_pieces.parts
            for _, rows in self._chunks(start, part, len(query[0]))
        ]
        matrix = torch.cat(chunks, 1) if chunks else torch.empty(len(query[0]), 0, device=self.device)
        refuse_nan(matrix)
        rows, columns = query_of.to(self.device), torch.where(mine, answers - first, -1).to(self.device)
        own, met = torch.zeros(len(answers), device=self.device), torch.nonzero(mine)[:, 0].to(self.device)
        own[met] = matrix[rows[met], columns[met]]
        own = self.workers.total(own)
        removed_of, removed = known.pairs()
        here = (removed >= first) & (removed < first + matrix.shape[1])
        matrix[removed_of[here].to(self.device), (removed[here] - first).to(self.device)] = torch.nan
        better, tied = count_rivals(matrix, rows, own, columns)
        return better.cpu(), tied.cpu()

    @property
    def _first(self) -> int:
        return self.entity_pieces.parts[0][0] if self.entity_pieces.parts else 0

    def _mine(self, ids: Tensor) -> Tensor:
        total = sum(len(rows) for _, rows in self.entity_pieces.parts)
        return (ids >= self._first) & (ids < self._first + total)


class Lead(Scorer):
    """The scorer of the first worker, which asks for all: what is called here, the others call too, in `follow`."""

    def __init__(self, scorer: ShardedEmbeddings) -> None:
        self._scorer = scorer
        self.model = scorer.model
        self._lock = Lock()  # a server asks from several threads, and all workers must do the same in the same order

    @property
    def entity_count(self) -> int:
        return self._scorer.entity_count

    @property
    def relation_count(self) -> int:
        return self._scorer.relation_count

    @property
    def sides_differ(self) -> bool:
        return self._scorer.sides_differ

    @property
    def queries_at_a_time(self) -> int:
        return self._scorer.queries_at_a_time

    @property
    def device(self) -> torch.device:
        return self._scorer.device

    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        found: Tensor = self._ask("scores", anchors, relations, side, candidates)
        return found

    def score_own(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor) -> Tensor:
        found: Tensor = self._ask("score_own", anchors, relations, side, candidates)
        return found

    def score_triples(self, triples: Tensor, side: Side = "tail") -> Tensor:
        found: Tensor = self._ask("score_triples", triples, side)
        return found

    def best(
        self, anchors: Tensor, relations: Tensor, side: Side, count: int, excluded: Known | None = None
    ) -> tuple[Tensor, Tensor]:
        hidden = None if excluded is None else _alone(excluded)
        found: tuple[Tensor, Tensor] = self._ask("best", anchors, relations, side, count, hidden)
        return found

    def count_better(
        self, anchors: Tensor, relations: Tensor, answers: Tensor, side: Side, known: Known
    ) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self._ask("count_better", anchors, relations, answers, side, _alone(known))
        return found

    def _ask(self, method: str, *arguments: Any) -> Any:
        with self._lock:
            self._scorer.workers.told((method, arguments))
            return getattr(self._scorer, method)(*arguments)

    def dismiss(self) -> None:
        """Nothing more will be asked."""
        self._scorer.workers.told(None)


def follow(scorer: ShardedEmbeddings) -> None:
    """Answer what the first worker asks until it dismisses."""
    while (asked := scorer.workers.told(None)) is not None:
        method, arguments = asked
        getattr(scorer, method)(*arguments)


def _alone(known: Known) -> Known:
    """With the ids of its own queries only, to be sent."""
    counts = known.ends - known.starts
    ends = counts.cumsum(0)
    return Known(ends - counts, ends, known.pairs()[1].to(torch.int32))
