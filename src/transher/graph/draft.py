"""A graph in the making: encoded triples that are being tidied before they become a `Graph`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from transher.graph.content import Content
from transher.graph.encoding import first_occurrences, triple_keys
from transher.graph.graph import SPLITS, Split, Triples
from transher.graph.names import Names
from transher.graph.report import Unseen
from transher.graph.splits import split_triples

_EXAMPLES = 3


@dataclass
class Draft:
    """What was read so far. `splits` has the splits that there are, "train" among them."""

    entities: pa.StringArray  # sorted identifiers
    relations: pa.StringArray
    splits: dict[Split, Triples]
    files: dict[str, str]
    weights: NDArray[np.float32] | None = None  # (n,), of the training triples
    entity_names: list[Names] = field(default_factory=list)
    relation_names: list[Names] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)  # of the files, for what was odd about them
    ignored: tuple[str, ...] = ()
    duplicates: dict[Split, int] = field(default_factory=dict)

    def count_duplicates(self) -> None:
        """Count the triples that repeat one of their split, and leave them."""
        for split, triples in self.splits.items():
            self._repeats(split, self._keys(triples))

    def remove_duplicates(self) -> None:
        """Leave the first of equal triples of a split, with the sum of their weights: a fact that is stated twice
        weighs as much as both statements."""
        for split, triples in self.splits.items():
            keys = self._keys(triples)
            first = self._repeats(split, keys)
            if split not in self.duplicates:
                continue
            self.splits[split] = triples[first]
            if split == "train" and self.weights is not None:
                order = np.argsort(keys[first])
                places = order[np.searchsorted(keys[first], keys, sorter=order)]
                self.weights = np.bincount(places, self.weights).astype(np.float32)

    def split(self, seed: int, fractions: tuple[float, float, float], keep_inverse_leaks: bool) -> None:
        """Make train, valid and test out of train."""
        triples = self.splits["train"]
        positions = split_triples(
            triples,
            len(self.entities),
            len(self.relations),
            seed=seed,
            fractions=fractions,
            keep_inverse_leaks=keep_inverse_leaks,
        )
        self.splits = {split: triples[positions[split]] for split in SPLITS}
        if self.weights is not None:
            self.weights = self.weights[positions["train"]]

    def overlaps(self) -> dict[str, int]:
        """How many triples two splits have in common, where there are any."""
        keys = {split: np.sort(self._keys(triples)) for split, triples in self.splits.items()}
        counts = {}
        for one, other in combinations(keys, 2):
            if len(keys[one]):
                places = np.searchsorted(keys[one], keys[other]).clip(max=len(keys[one]) - 1)
                counts[f"{one}/{other}"] = int((keys[one][places] == keys[other]).sum())
        return {pair: count for pair, count in counts.items() if count}

    def handle_unseen(self, drop: bool) -> Unseen:
        """Find what has no training triple; with `drop` leave it out, and close the gaps in the ids."""
        train = self.splits["train"]
        entity_seen = np.zeros(len(self.entities), dtype=np.bool_)
        entity_seen[train[:, 0]] = True
        entity_seen[train[:, 2]] = True
        relation_seen = np.zeros(len(self.relations), dtype=np.bool_)
        relation_seen[train[:, 1]] = True
        counts: dict[Split, int] = {}
        for split, triples in self.splits.items():
            known = entity_seen[triples[:, 0]] & relation_seen[triples[:, 1]] & entity_seen[triples[:, 2]]
            if not known.all():
                counts[split] = int((~known).sum())
                if drop:
                    self.splits[split] = triples[known]
        examples = [
            word
            for words, seen in ((self.entities, entity_seen), (self.relations, relation_seen))
            for word in words.take(pa.array(np.flatnonzero(~seen)[:_EXAMPLES])).to_pylist()
        ]
        unseen = Unseen(int((~entity_seen).sum()), int((~relation_seen).sum()), counts, tuple(examples), drop)
        if drop and examples:
            self.entities = self.entities.filter(pa.array(entity_seen))
            self.relations = self.relations.filter(pa.array(relation_seen))
            entity_ids = np.cumsum(entity_seen, dtype=np.int32) - 1
            relation_ids = np.cumsum(relation_seen, dtype=np.int32) - 1
            for split, triples in self.splits.items():
                columns = entity_ids[triples[:, 0]], relation_ids[triples[:, 1]], entity_ids[triples[:, 2]]
                self.splits[split] = np.stack(columns, axis=1)
        return unseen

    def _repeats(self, split: Split, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which triples are the first of their kind, (n,); the others are counted."""
        first = first_occurrences(keys)
        if not first.all():
            self.duplicates[split] = int((~first).sum())
        return first

    def _keys(self, triples: Triples) -> NDArray[np.int64]:
        return triple_keys(triples, len(self.entities), len(self.relations))
