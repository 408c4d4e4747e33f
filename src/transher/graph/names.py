"""Names and descriptions for people, from files or from Python, joined to a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from transher.errors import InputError, UsageError
from transher.graph.addresses import is_address, local_copy
from transher.graph.options import ReadingOptions
from transher.graph.streams import source_of, text_lines
from transher.graph.vocabulary import Vocabulary
from transher.graph.words import is_data_frame, words_of

if TYPE_CHECKING:
    import pandas as pd

_COLUMN_WORDS = (("identifier", "id"), ("name", "label", "title"), ("description",))


@dataclass(frozen=True)
class Names:
    """A table of identifiers with what people call them."""

    identifiers: pa.StringArray
    names: pa.StringArray  # null where there is none
    descriptions: pa.StringArray | None = None


def names_from(given: Path | str | Mapping[object, str] | pd.DataFrame | pa.Table, kind: str) -> Names:
    """Names as they are given: a file or its address, a mapping of identifiers to names, or a table of identifier, name
    and perhaps description, by the names of its columns or in this order."""
    if isinstance(given, str) and is_address(given):
        with local_copy(given, ReadingOptions(format="tsv")) as path:
            return read_names(path)
    if isinstance(given, str | Path):
        return read_names(Path(given))
    if isinstance(given, Mapping):
        return _checked(list(given), list(given.values()), None, kind)
    if is_data_frame(given):
        given = pa.table(
            [words_of(given.iloc[:, place].tolist()) for place in range(given.shape[1])], [str(name) for name in given]
        )
    if not hasattr(given, "__arrow_c_stream__"):
        raise UsageError(
            f"{kind} cannot be {type(given).__name__}: give a file, a mapping of identifiers to names, or a table."
        )
    table = pa.table(given)
    columns = [table.column(place).to_pylist() for place in _name_columns(table.column_names, kind)]
    return _checked(columns[0], columns[1], columns[2] if len(columns) == 3 else None, kind)


def _name_columns(found: Sequence[str], kind: str) -> list[int]:
    lowered = [name.strip().lower() for name in found]
    by_word = [next((lowered.index(word) for word in words if word in lowered), None) for words in _COLUMN_WORDS]
    if by_word[0] is not None and by_word[1] is not None:
        return [place for place in by_word if place is not None]
    if 2 <= len(found) <= 3:
        return list(range(len(found)))
    raise InputError(
        f"its columns are {', '.join(found)}.", file=kind, remedy="Call them identifier, name and description."
    )


def _checked(
    identifiers: Sequence[object], names: Sequence[object], descriptions: Sequence[object] | None, kind: str
) -> Names:
    try:
        words = words_of(identifiers)
        texts = [words_of(column) for column in (names, descriptions) if column is not None]
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InputError(f"{error}.", file=kind, remedy="Use text or integers.") from error
    if words.null_count:
        row = pc.index(pc.is_null(words), True).as_py()
        raise InputError("the identifier is missing.", file=f"{kind}, row {row + 1:,} (counted from 1)")
    return Names(pc.utf8_trim_whitespace(words), *(_null_if_empty(column) for column in texts))


def read_names(path: Path) -> Names:
    """A file of lines `identifier <tab> name [<tab> description]`, in UTF-8, plain or packed. The description may be
    missing in some lines."""
    if not path.is_file():
        what = "is a folder." if path.is_dir() else "there is no such file."
        raise InputError(what, file=path, remedy="Give a file with an identifier, a tab and a name in each line.")
    columns: tuple[list[str], list[str], list[str]] = ([], [], [])
    for number, line in text_lines(source_of(path, ReadingOptions(format="tsv"))):
        if not line.strip():
            continue
        identifier, *texts = line.split("\t")
        if not identifier.strip() or not 1 <= len(texts) <= 2:
            raise InputError(
                f"{1 + len(texts)} columns." if identifier else "the identifier is empty.",
                file=path,
                line=number,
                remedy="Each line is an identifier, a tab, a name, and perhaps a tab and a description.",
            )
        for column, text in zip(columns, (identifier.strip(), *texts, ""), strict=False):
            column.append(text.strip())
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
