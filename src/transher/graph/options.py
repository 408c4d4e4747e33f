"""How a graph is to be read: every option, its default, and which values make sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from transher.errors import UsageError, nearest
from transher.graph.splits import FRACTIONS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

# Three or four columns, for head, relation, tail and weight: names in the header, or positions from 0.
ChosenColumns = Sequence[str] | Sequence[int]
Header = Literal["auto", "yes", "no"]

TEXT_ENDINGS = (".tsv", ".txt", ".csv")
JSON_ENDINGS = (".jsonl", ".ndjson")
PARQUET_ENDINGS = (".parquet",)
RDF_ENDINGS = (".nt", ".nq", ".ttl", ".trig", ".rdf", ".owl")
ENDINGS = (*TEXT_ENDINGS, *JSON_ENDINGS, *PARQUET_ENDINGS, *RDF_ENDINGS)
FORMATS = tuple(ending.removeprefix(".") for ending in ENDINGS)
_DELIMITERS = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}


def option(name: str, example: str = "") -> str:
    """How a message names an option, for both kinds of readers: `--skip-bad-rows (in Python: skip_bad_rows)`."""
    return f"--{name.replace('_', '-')}{example and ' '}{example} (in Python: {name})"


@dataclass(frozen=True)
class ReadingOptions:
    """The options of `load_graph`, whose description says what each of them means."""

    name: str | None = None
    columns: ChosenColumns | None = None
    header: Header = "auto"
    format: str | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    skip_bad_rows: bool = False
    entity_names: Path | str | Mapping[object, str] | pd.DataFrame | pa.Table | None = None
    relation_names: Path | str | Mapping[object, str] | pd.DataFrame | pa.Table | None = None
    unseen: Literal["keep", "drop"] = "keep"
    literals: Literal["keep", "drop"] = "drop"
    seed: int = 0
    fractions: tuple[float, float, float] = FRACTIONS
    keep_inverse_leaks: bool = False

    def __post_init__(self) -> None:
        if self.unseen not in ("keep", "drop") or self.literals not in ("keep", "drop"):
            raise UsageError(f"unseen={self.unseen!r}, literals={self.literals!r}: each is 'keep' or 'drop'.")
        if self.header not in ("auto", "yes", "no"):
            raise UsageError(f"header={self.header!r}: it is 'auto', 'yes' or 'no'.")
        self._check_columns()
        if self.format is not None and self.form not in ENDINGS:
            hint = nearest(self.format, FORMATS) or f"Known formats: {', '.join(FORMATS)}."
            raise UsageError(f"Unknown format {self.format!r}. {hint}")
        if self.delimiter is not None and (len(self.separator) != 1 or self.separator in '\r\n"'):
            raise UsageError(f"delimiter={self.delimiter!r}: it is one character, such as ';' or '|', or 'tab'.")
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError) as error:
            raise UsageError(
                f"Unknown encoding {self.encoding!r}. Known ones are utf-8, utf-16, latin-1, cp1252 and others."
            ) from error

    def _check_columns(self) -> None:
        if self.columns is None:
            return
        kinds = {type(column) for column in self.columns}
        if isinstance(self.columns, str) or len(self.columns) not in (3, 4) or kinds not in ({str}, {int}):
            raise UsageError(
                f"columns={self.columns!r}: name three, for head, relation and tail, or four with the weight, "
                "all by their names or all by their positions from 0."
            )
        if self.header == "no" and kinds == {str}:
            raise UsageError("Columns can be named only where a header names them: give positions from 0.")

    @property
    def form(self) -> str | None:
        """The format as a file's ending says it, `.csv`, or None where it is left to the ending."""
        return None if self.format is None else f".{self.format.lower().removeprefix('.')}"

    @property
    def separator(self) -> str:
        """The delimiter as one character, or nothing where the file decides."""
        return _DELIMITERS.get((self.delimiter or "").lower(), self.delimiter or "")

    @property
    def by_position(self) -> bool:
        return self.columns is not None and isinstance(self.columns[0], int)
