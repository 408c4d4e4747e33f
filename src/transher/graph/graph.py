"""The graph: triples of integer ids in three splits, and the names behind the ids."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from transher.errors import UsageError, nearest
from transher.graph.ends import Ends
from transher.graph.known import KnownTriples
from transher.graph.notebook import html_summary
from transher.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    from transher.graph.report import LoadReport

Triples = NDArray[np.int32]  # (n, 3): head, relation, tail
Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, Split, Split] = ("train", "valid", "test")
Side = Literal["head", "tail"]  # the end that is asked for; the other end, the anchor, is given
SIDES: tuple[Side, Side] = ("head", "tail")


@dataclass(frozen=True)
class Candidates:
    """Supplied negatives of a split, as OGB has them: entity ids (n, m) for either side of each of its n triples."""

    head: NDArray[np.int32]
    tail: NDArray[np.int32]


@dataclass(frozen=True, repr=False)
class Graph:
    """A knowledge graph. Ids are positions in the vocabularies. As read from files these are sorted, so the same
    triples in any order of lines give the same ids; what a graph grows by follows behind."""

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: Triples
    valid: Triples
    test: Triples
    train_weights: NDArray[np.float32] | None = None  # (n,), one per training triple
    entity_types: NDArray[np.int32] | None = None  # (entities,), positions in `type_names`
    type_names: tuple[str, ...] = ()
    candidates: dict[Split, Candidates] = field(default_factory=dict)
    load_report: LoadReport | None = None  # what reading it from files found odd
    prepared: Path | None = None  # the folder that `transher prepare` left, of which this is all

    def __repr__(self) -> str:
        return f"<Graph {self.name!r}: {self._size}\n {self._splits}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = {"size": self._size, "triples": self._splits}
        if len(self.train):
            first = self.train[0].tolist()
            words = zip(first, (self.entities, self.relations, self.entities), strict=True)
            rows["such as"] = " — ".join(vocabulary.label(id) for id, vocabulary in words)
        return html_summary(f"Graph {self.name}", rows, "run = transher.train(graph)")

    @property
    def _size(self) -> str:
        return f"{len(self.entities):,} entities, {len(self.relations):,} relations"

    @property
    def _splits(self) -> str:
        return ", ".join(f"{len(self.split(split)):,} {split}" for split in SPLITS)

    def equals(self, other: Graph) -> bool:
        """Whether ids mean the same in both, and every split has the same triples; names of graphs say little."""
        same_words = self.entities.identifiers.equals(other.entities.identifiers) and self.relations.identifiers.equals(
            other.relations.identifiers
        )
        return same_words and all(np.array_equal(self.split(split), other.split(split)) for split in SPLITS)

    @cached_property
    def sha256(self) -> str:
        """Of identifiers and triples: the same for the same graph, whatever files it came from."""
        digest = hashlib.sha256()
        for vocabulary in (self.entities, self.relations):
            digest.update("\n".join(vocabulary.identifiers.to_pylist()).encode())
            digest.update(b"\n\n")
        for split in SPLITS:
            digest.update(np.ascontiguousarray(self.split(split), dtype="<i4").tobytes())
        return digest.hexdigest()

    def split(self, name: Split) -> Triples:
        if name not in SPLITS:
            suggestion = nearest(name, SPLITS) or f"There are {', '.join(SPLITS)}."
            raise UsageError(f"Unknown split {name!r}. {suggestion}")
        return {"train": self.train, "valid": self.valid, "test": self.test}[name]

    def find_triples(self, words: Sequence[pa.Array]) -> NDArray[np.int64]:
        """Ids (n, 3) of names in three columns, −1 where one means nothing or several things."""
        vocabularies = (self.entities, self.relations, self.entities)
        return np.stack([vocabulary.meant(column) for vocabulary, column in zip(vocabularies, words, strict=True)], 1)

    @cached_property
    def all_triples(self) -> Triples:
        """Every triple of every split, for filters and statistics."""
        return np.concatenate([self.train, self.valid, self.test])

    @cached_property
    def known(self) -> KnownTriples:
        """The index of all that the graph holds, in any split."""
        return KnownTriples(self.all_triples, len(self.entities), len(self.relations))

    @cached_property
    def trained(self) -> KnownTriples:
        """The index of what a training sees."""
        return KnownTriples(self.train, len(self.entities), len(self.relations))

    @cached_property
    def ends(self) -> Ends:
        """Who may stand at which end of which relation."""
        return Ends(self.known, self.entity_types)

    @cached_property
    def trained_ends(self) -> Ends:
        """The same by what a training sees."""
        return Ends(self.trained, self.entity_types)
