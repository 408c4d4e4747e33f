"""Names: from integer ids to what people read, and back from what people type."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Vocabulary:
    """Identifiers of entities or relations in id order, with optional names and descriptions for people."""

    kind: str  # "entity" or "relation", for messages
    identifiers: pa.StringArray
    names: pa.StringArray | None = None  # null where there is none
    descriptions: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.identifiers)
