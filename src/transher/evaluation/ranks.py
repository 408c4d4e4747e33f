"""Ranks: what a ranking leaves behind, one row per query, in memory and as Parquet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from transher.errors import InputError
from transher.files import replacing
from transher.graph.graph import SIDES, Graph, Side, Triples

Progress = Callable[[int, int], None]  # of queries or pairs: how many are done, and how many there are

_COLUMNS = ("triple", "head", "relation", "tail", "side", "optimistic", "pessimistic")


@dataclass(frozen=True, repr=False)
class Ranks:
    """Ranks of q queries, two for each triple that was ranked: all that ask for heads, then all that ask for tails."""

    triple: NDArray[np.int64]  # (q,), the triple's position in its split
    triples: Triples  # (q, 3), its ids
    side: NDArray[np.int8]  # (q,), positions in SIDES
    optimistic: NDArray[np.int64]  # (q,), 1 + how many are better
    pessimistic: NDArray[np.int64]  # (q,), that and how many are tied

    def __repr__(self) -> str:
        return f"<Ranks of {len(self):,} queries>"

    @property
    def realistic(self) -> NDArray[np.float64]:
        """1 + better + ½·tied (q,): the mean over all orders of the tied."""
        return (self.optimistic + self.pessimistic) / 2

    @property
    def tied(self) -> NDArray[np.bool_]:
        """Whether another candidate had the same score as the answer (q,)."""
        return self.optimistic < self.pessimistic

    def __len__(self) -> int:
        return len(self.triple)

    def take(self, chosen: NDArray[np.int64]) -> Ranks:
        """The ranks of the queries at the positions `chosen`."""
        return Ranks(
            self.triple[chosen],
            self.triples[chosen],
            self.side[chosen],
            self.optimistic[chosen],
            self.pessimistic[chosen],
        )

    def of_side(self, side: Side) -> Ranks:
        return self.take(np.flatnonzero(self.side == SIDES.index(side)))

    def to_arrow(self) -> pa.Table:
        """A table with a row per query; sides as words, so that it can be read without this package."""
        sides = pa.DictionaryArray.from_arrays(pa.array(self.side), pa.array(SIDES))
        head, relation, tail = self.triples.T
        columns = (self.triple, head, relation, tail, sides, self.optimistic, self.pessimistic)
        return pa.table(dict(zip(_COLUMNS, columns, strict=True)))

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Ranks:
        sides = pa.compute.index_in(table["side"].cast(pa.string()), pa.array(SIDES))
        if sides.null_count:
            raise ValueError("a side is neither head nor tail")
        ids = [table[name].to_numpy().astype(np.int32) for name in ("head", "relation", "tail")]
        return cls(
            table["triple"].to_numpy(),
            np.stack(ids, axis=1),
            sides.to_numpy().astype(np.int8),
            table["optimistic"].to_numpy(),
            table["pessimistic"].to_numpy(),
        )

    def save(self, path: Path) -> None:
        with replacing(path) as file:
            pq.write_table(self.to_arrow(), file)

    @classmethod
    def load(cls, path: Path, graph: Graph) -> Ranks:
        """The ranks of a graph's test triples."""
        try:
            table = pq.read_table(path, columns=list(_COLUMNS))
            whole = [table[name] for name in _COLUMNS if name != "side"]
            if any(column.null_count or not pa.types.is_integer(column.type) for column in whole):
                raise ValueError("a column is not of whole numbers")
            ranks = cls.from_arrow(table)
            sizes = len(graph.entities), len(graph.relations), len(graph.entities)
            if not ((ranks.triples >= 0) & (ranks.triples < sizes)).all():
                raise ValueError("an id is not of this graph")
            if not ((ranks.optimistic >= 1) & (ranks.pessimistic >= ranks.optimistic)).all() or not len(ranks):
                raise ValueError("a rank is not one")
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
            remedy = "Evaluate the run again to write it anew."
            raise InputError(f"cannot be read as ranks: {error}.", file=path, remedy=remedy) from error
        return ranks


def both_sides(triples: Triples, counts: dict[Side, tuple[NDArray[Any], NDArray[Any]]]) -> Ranks:
    """Ranks of n triples from how many are (better, tied), both (n,), on each side."""
    better, tied = (np.concatenate([counts[side][which] for side in SIDES]) for which in (0, 1))
    return Ranks(
        triple=np.tile(np.arange(len(triples)), 2),
        triples=np.tile(triples, (2, 1)),
        side=np.repeat(np.arange(2, dtype=np.int8), len(triples)),
        optimistic=1 + better,
        pessimistic=1 + better + tied,
    )
