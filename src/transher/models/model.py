"""What a model is: how entity rows are seen, how a query is made, and how queries are scored against candidates.

A model holds settings and no weights; the weights live in two tables, one row per entity and one per relation, and are
passed in. Both sides, single triples, training, ranking and answers all go through the four methods below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from transher import kernels
from transher.errors import UsageError
from transher.graph.graph import Side
from transher.kernels import Chunk, Known, Positions
from transher.scorer import count_in_matrix

# All that an (anchor, relation, side) says about any candidate: tensors with one row per query.
Query = tuple[Tensor, ...]


class Part(NamedTuple):
    """A run of columns in a table that is initialised as one: component letter (E, G or B) and width."""

    letter: Literal["E", "G", "B"]
    width: int
    identity: bool = False  # a square matrix that is initialised as the identity, whatever the strategy says


class Asked(NamedTuple):
    """n answers to count the better candidates of: which query each is an answer to, its id, its row as seen (n, d)."""

    query: Tensor
    ids: Tensor
    rows: Tensor


class Model(ABC):
    """A score function of dimension `k` with margin `gamma`. Further arguments of a constructor are settings of the
    model's own: a recipe has them in its section [model], checked by their types."""

    title: ClassVar[str]  # as the paper prints it; the name of the class unless given
    defaults: ClassVar[Mapping[str, Any]] = {}  # of its recipe, besides those of its base class: {"model.gamma": 9.0}
    largest_default_k: ClassVar[int | None] = None  # of its default recipe, where a wide model costs too much
    only_direction: ClassVar[bool] = False  # whether only the direction of an entity's row counts, not its length
    can_drop: ClassVar[bool] = False  # whether a query's coordinates can be dropped one by one
    by_dot_product: ClassVar[bool] = False  # whether a score is the dot product of the query and the candidate
    holds_scores: ClassVar[bool] = True  # whether `count_better` holds the scores of all candidates at a time

    def __init_subclass__(cls) -> None:
        cls.title = vars(cls).get("title", cls.__name__)
        given = [vars(base).get("defaults", {}) for base in reversed(cls.__mro__)]
        cls.defaults = {setting: value for settings in given for setting, value in settings.items()}

    def __init__(self, k: int, gamma: float) -> None:
        self.k = k
        self.gamma = gamma

    @property
    def entity_parts(self) -> list[Part]:
        return [Part("E", self.k)]

    @property
    @abstractmethod
    def relation_parts(self) -> list[Part]:
        """The columns of a relation's row, left to right."""

    @property
    def entity_width(self) -> int:
        return sum(part.width for part in self.entity_parts)

    @property
    def relation_width(self) -> int:
        return sum(part.width for part in self.relation_parts)

    @property
    def initial_range(self) -> float:
        """The bound of U_γ: (γ + ε)/k with ε = 2."""
        return (self.gamma + 2.0) / self.k

    def entities(self, rows: Tensor) -> Tensor:
        """Raw entity rows (…, entity_width) as the score sees them."""
        return rows

    @abstractmethod
    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        """anchors: seen entity rows (B, d), relations: raw relation rows (B, w) → one query per row."""

    @abstractmethod
    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        """Scores (B, N) of every query against every candidate; candidates: seen entity rows (N, d)."""

    @abstractmethod
    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        """Scores (B,) of query i against candidate i; candidates: seen entity rows (B, d)."""

    def batch_scores(
        self,
        entity_rows: Tensor,
        relation_rows: Tensor,
        positions: Positions,
        side: Side,
        keep: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Scores of a training batch: of the positives (B,) and of the negatives (B, N).

        entity_rows (U, d) and relation_rows (V, w) are raw. One pool of negatives is shared by the batch, and with as
        many pools as positives each has negatives of its own. `keep` (B, k) weighs the coordinates of a query: dropout.
        """
        anchors, relations, answers, negatives = positions
        seen = self.entities(entity_rows)
        pools, count = negatives.shape
        run = kernels.run_length(len(anchors), pools)
        own = run == 1
        # All rows at once: for every time that rows are taken, a backward pass fills a gradient of all of `seen`. And
        # not seen[…], whose backward adds rows in any order: a training repeats to the bit.
        places = [anchors, answers, *([] if own else [negatives.reshape(-1)])]
        rows = kernels.take_rows(seen, torch.cat(places)).split([len(part) for part in places])
        query = self.query(rows[0], kernels.take_rows(relation_rows, relations), side)
        if keep is not None:
            query = drop(query, keep)
        positive = self.pairs(query, rows[1])
        if own:
            return positive, self._own_negatives(query, seen, negatives)
        runs = zip(*(part.split(run) for part in query), strict=True)
        candidates = rows[2].unflatten(0, (pools, count))
        scores = [self.cross(part, pool) for part, pool in zip(runs, candidates, strict=True)]
        return positive, scores[0] if pools == 1 else torch.cat(scores)

    def _own_negatives(self, query: Query, seen: Tensor, negatives: Tensor) -> Tensor:
        """Scores (B, N) against negatives (B, N), some queries at a time and recomputed backward: the gathered rows
        would otherwise be a (B, N, d) tensor."""
        count = negatives.shape[1]
        size = max(1, (1 << 22) // max(1, count * seen.shape[1]))

        def score(chosen: Tensor, *query: Tensor) -> Tensor:
            repeated = tuple(part.repeat_interleave(count, 0) for part in query)
            return self.pairs(repeated, kernels.take_rows(seen, chosen.reshape(-1))).view(-1, count)

        parts = [
            checkpoint(score, chosen, *rows, use_reentrant=False)
            for chosen, *rows in zip(negatives.split(size), *(part.split(size) for part in query), strict=True)
        ]
        return torch.cat(parts)

    def best(self, query: Query, chunks: Iterable[Chunk], size: int, excluded: Known) -> tuple[Tensor, Tensor]:
        """The `size` best candidates of each query that are not excluded: scores and ids, both (B, size), best first,
        of equal scores the lower id first; places beyond the last candidate hold −∞ and −1."""
        shape, last, device = (len(query[0]), size), torch.iinfo(torch.int64).max, query[0].device
        scores, ids = torch.full(shape, -torch.inf, device=device), torch.full(shape, last, device=device)
        for first, candidates in chunks:
            scores, ids = kernels.merge_best(self.cross(query, candidates), first, excluded, scores, ids)
        return scores, ids.masked_fill(ids == last, -1)

    def count_better(self, query: Query, asked: Asked, chunks: Iterable[Chunk], known: Known) -> tuple[Tensor, Tensor]:
        """How many candidates score better than each answer, and how many the same, the answer itself and known answers
        aside: int64 (n,), (n,). chunks: (first id, seen rows (C, d)) over all candidates; known: of each query."""
        scores = torch.cat([self.cross(query, rows) for _, rows in chunks], 1)
        return count_in_matrix(scores, asked.query, asked.ids, known)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        """heads, tails: seen entity rows (B, d) → (B, w): the score of a pair with any relation is the dot product with
        the relation's row. For models whose score is linear in the relation."""
        raise UsageError(f"{self.title} cannot predict relations by a dot product: set training.relation_prediction=0.")

    @classmethod
    def predicts_relations(cls) -> bool:
        """Whether `relation_query` is defined."""
        return cls.relation_query is not Model.relation_query

    def translation(self, relations: Tensor) -> Tensor | None:
        """The columns B of relation rows, a view, for λ‖B‖² and pictures; None where a model has no such thing."""
        return None

    def scales(self, relations: Tensor) -> tuple[Tensor, Tensor] | None:
        """The columns r^H and r^T of relation rows, which multiply the coordinates of head and tail; None where a model
        has no such thing."""
        return None

    @classmethod
    def can_join(cls) -> bool:
        """Whether several of this model, side by side, are one of it whose score is the mean of theirs."""
        return cls.joined_rows is not Model.joined_rows

    def joined_rows(self, entities: Tensor, relations: Tensor, joined: Model, share: float) -> tuple[Tensor, Tensor]:
        """This model's tables as a part of `joined`, whose score is the mean of its members': `share` is one member's
        part of it. Rows are blocks of k columns; a block of the joined row has that of every member, side by side."""
        raise UsageError(f"{self.title} cannot be joined: its score is not a sum over coordinates.")

    def moduli(self, rows: Tensor) -> Tensor:
        """Absolute values of an embedding's coordinates, for N3; complex models give moduli."""
        return rows.abs()


def drop(query: Query, keep: Tensor) -> Query:
    """Query with coordinates weighted by `keep` (B, k): since |m(q − s∘e)| = m|q − s∘e|, this is dropout on the
    difference vector, with one mask per query for all of its candidates."""
    return tuple(part * keep for part in query)


def complex_product(a: Tensor, b: Tensor, conjugate_b: bool = False) -> Tensor:
    """Coordinate-wise product of complex vectors stored as [real | imaginary]."""
    a_real, a_imaginary = a.chunk(2, -1)
    b_real, b_imaginary = b.chunk(2, -1)
    if conjugate_b:
        b_imaginary = -b_imaginary
    return torch.cat([a_real * b_real - a_imaginary * b_imaginary, a_real * b_imaginary + a_imaginary * b_real], -1)


def complex_moduli(rows: Tensor) -> Tensor:
    """|z| of complex coordinates stored as [real | imaginary]; finite gradient at zero."""
    real, imaginary = rows.chunk(2, -1)
    return (real.square() + imaginary.square()).clamp_min(torch.finfo(rows.dtype).tiny).sqrt()
