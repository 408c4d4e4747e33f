"""Names and descriptions for people, from files beside the triples, joined to a vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from transher.errors import InputError
from transher.graph.faults import open_bytes, text_lines
from transher.graph.vocabulary import Vocabulary


@dataclass(frozen=True)
class Names:
    """A table of identifiers with what people call them."""

    identifiers: pa.StringArray
    names: pa.StringArray  # null where there is none
    descriptions: pa.StringArray | None = None


def read_names(path: Path) -> Names:
    """A file of lines `identifier <tab> name [<tab> description]`, in UTF-8, plain or gzip. The description may be
    missing in some lines."""
    if not path.is_file():
        what = "is a folder." if path.is_dir() else "there is no such file."
        raise InputError(what, file=path, remedy="Give a file with an identifier, a tab and a name in each line.")
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    with open_bytes(path) as file:
        for number, line in enumerate(text_lines(path, file), 1):
            if not line.strip():
                continue
            identifier, *texts = line.split("\t")
            if not identifier or not 1 <= len(texts) <= 2:
                raise InputError(
                    f"{1 + len(texts)} columns." if identifier else "the identifier is empty.",
                    file=path,
                    line=number,
                    remedy="Each line is an identifier, a tab, a name, and perhaps a tab and a description.",
                )
            for column, text in zip(columns, (identifier, *texts, ""), strict=False):
                column.append(text)
    identifiers, names, descriptions = (pa.array(column, pa.string()) for column in columns)
    return Names(identifiers, _null_if_empty(names), _null_if_empty(descriptions))


def named_vocabulary(kind: str, identifiers: pa.StringArray, sources: Sequence[Names]) -> Vocabulary:
    """A vocabulary with the names and descriptions that `sources` have for it; earlier sources come first."""
    names = pa.nulls(len(identifiers), pa.string())
    descriptions = pa.nulls(len(identifiers), pa.string())
    for source in sources:
        rows = pc.index_in(identifiers, value_set=source.identifiers)
        names = pc.coalesce(names, source.names.take(rows))
        if source.descriptions is not None:
            descriptions = pc.coalesce(descriptions, source.descriptions.take(rows))
    return Vocabulary(kind, identifiers, _none_if_null(names), _none_if_null(descriptions))


def _null_if_empty(texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _none_if_null(texts: pa.StringArray) -> pa.StringArray | None:
    return None if texts.null_count == len(texts) else texts
