"""The words of a graph: identifiers in id order, with names and descriptions for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transher.graph.lookup import Lookup


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """Identifiers of entities or relations in id order, with optional names and descriptions for people.

    All three are Arrow string arrays of the same length: millions of Python strings would take ten times the memory.
    """

    kind: str  # "entity" or "relation", for messages
    identifiers: pa.StringArray
    names: pa.StringArray | None = None  # null where there is none
    descriptions: pa.StringArray | None = None

    def __repr__(self) -> str:
        first = ", ".join(self.identifiers[:3].to_pylist())
        return f"<Vocabulary: {len(self):,} of kind {self.kind}: {first}{', …' if len(self) > 3 else ''}>"

    def __len__(self) -> int:
        return len(self.identifiers)

    def label(self, id: int) -> str:
        """What a person reads for `id`: see `labels`."""
        return self.labels([id])[0]

    def labels(self, ids: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """What a person reads for each of `ids`; `find` takes each back to its id. See `Lookup.labels`."""
        return self.lookup.labels(ids)

    def ids(self, identifiers: pa.Array) -> NDArray[np.int32]:
        """The id of each identifier, −1 where there is no such."""
        found = pc.fill_null(pc.index_in(identifiers, value_set=self.identifiers), -1)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int32)

    def find(self, text: str) -> int:
        """The id that `text` means. UnknownNameError if it means nothing, or several. See `Lookup`."""
        return self.lookup.find(text)

    def find_all(self, words: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
        """The id that each of many words means, as `find` takes them: (n,)."""
        return self.lookup.find_all(words)

    def meant(self, words: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
        """As `find_all`, with −1 for a word that means nothing, or several things: (n,)."""
        return self.lookup.meant(words)

    def known(self, words: pa.Array) -> NDArray[np.int64]:
        """The id that each word means in new triples, −1 where it means nothing: (n,). See `Lookup.known`."""
        return self.lookup.known(words)

    @cached_property
    def lookup(self) -> Lookup:
        """From what people type to ids, and back."""
        return Lookup(self.kind, self.identifiers, self.names, self.descriptions)
