"""What one or more files say: triples in their words, names, and what was odd about them."""

from __future__ import annotations

from dataclasses import dataclass, field

from transher.graph.encoding import SpelledTriples
from transher.graph.faults import BadRows
from transher.graph.names import Names


@dataclass
class Content:
    triples: SpelledTriples
    names: list[Names] = field(default_factory=list)
    literals_left_out: int = 0
    bad_rows: BadRows = field(default_factory=BadRows)
    headers: list[str] = field(default_factory=list)  # sentences on first lines that may or may not be headers

    def extend(self, other: Content) -> None:
        """Add what another file of the same split says."""
        self.triples.extend(other.triples)
        self.names += other.names
        self.literals_left_out += other.literals_left_out
        self.bad_rows.extend(other.bad_rows)
        self.headers += other.headers
