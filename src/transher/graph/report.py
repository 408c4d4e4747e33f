"""What reading a graph found worth telling: duplicates, overlaps, things never trained on, lines left out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from transher.graph.graph import Split
from transher.graph.options import option


@dataclass(frozen=True)
class Unseen:
    """Entities and relations of valid and test that have no training triple."""

    entities: int = 0
    relations: int = 0
    triples: dict[Split, int] = field(default_factory=dict)  # that hold one of them
    examples: tuple[str, ...] = ()  # some of their identifiers
    dropped: bool = False


@dataclass(frozen=True)
class LoadReport:
    """Counts by split, or by pair of splits. What does not occur is not listed."""

    files: dict[str, str]  # what was read for each split
    split_by_seed: int | None = None  # the seed, where one file became three splits
    unfilled: tuple[Split, ...] = ()  # splits that got no triple of that one file, since it had none to spare
    duplicates: dict[Split, int] = field(default_factory=dict)  # triples that repeat one of their split
    duplicates_removed: bool = True  # they stay only where supplied candidates belong to each triple
    overlaps: dict[str, int] = field(default_factory=dict)  # "train/test": triples that stand in both; kept
    unseen: Unseen = Unseen()
    literals_left_out: int = 0
    trimmed: int = 0  # identifiers that had spaces around them
    bad_rows: int = 0  # left out, since they were to be skipped
    bad_row_examples: tuple[str, ...] = ()  # where the first of them are, and what is wrong with them
    headers: tuple[str, ...] = ()  # sentences on first lines that may or may not be headers
    ignored_files: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        """Sentences for a person, none where all was as it should be."""
        what = "were removed from {} while reading" if self.duplicates_removed else "stay in {}"
        lines = [f"{n:,} triples that repeat others {what.format(split)}." for split, n in self.duplicates.items()]
        lines += self.headers
        if self.bad_rows:
            more = "" if self.bad_rows == len(self.bad_row_examples) else ", …"
            lines.append(f"{self.bad_rows:,} bad rows skipped ({'; '.join(self.bad_row_examples)}{more}).")
        if self.trimmed:
            lines.append(f"{self.trimmed:,} identifiers had spaces around them, which were removed.")
        if self.unfilled:
            lines.append(f"There are too few triples to spare any for {' and '.join(self.unfilled)}.")
        for pair, count in self.overlaps.items():
            lines.append(f"{count:,} triples stand in both {pair.replace('/', ' and ')}.")
        if self.unseen.examples:
            leave_out = option("unseen", "drop")
            triples = " and ".join(f"{count:,} triples of {split}" for split, count in self.unseen.triples.items())
            lines.append(
                f"{self.unseen.entities:,} entities and {self.unseen.relations:,} relations have no training triple "
                f"(such as {', '.join(self.unseen.examples)}): {triples or 'no triples'} "
                f"{'dropped' if self.unseen.dropped else f'kept; {leave_out} leaves them out'}."
            )
        if self.literals_left_out:
            lines.append(
                f"{self.literals_left_out:,} triples with literals left out; {option('literals', 'keep')} reads them."
            )
        return lines
