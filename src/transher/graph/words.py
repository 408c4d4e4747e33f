"""Identifiers and weights out of values of any type: 1 is "1", and so is 1.0; what is missing is missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

LARGEST_WEIGHT = float(np.finfo(np.float32).max)
_EXACT = 2.0**53  # up to here every whole number is a float
_NO_WORDS = (bytes, bytearray, list, tuple, dict, set, frozenset, np.ndarray)


def is_data_frame(value: object) -> TypeGuard[pd.DataFrame]:
    """Whether it is pandas' table; pandas is not imported for those who have not done so."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def word_of(value: object) -> str | None:
    """A value as a person writes it, None where it is missing. A value that holds others is a TypeError."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _NO_WORDS):
        raise TypeError(f"{value!r:.60} is not an identifier")
    # pandas has two kinds of "missing"; one of them cannot even be compared with itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return str(value)


def words_of(values: Sequence[object]) -> pa.StringArray:
    """The word of each value, null where it is missing."""
    try:
        return pa.array(values, pa.string())
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([word_of(value) for value in values], pa.string())


def column_words(column: pa.Array) -> pa.Array:
    """The word of each value of an Arrow column, null where it is missing. What has no word is an ArrowException,
    TypeError or ValueError."""
    column.validate(full=True)  # a broken file can hold strings that are not UTF-8
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()  # whose words need not all occur
    if pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
        whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < _EXACT)
        missing = np.isnan(numbers)
        if not (whole | missing).all():
            return words_of([word_of(number) for number in numbers.tolist()])
        column = pa.array(np.where(missing, 0, numbers).astype(np.int64), mask=missing)
    if isinstance(column.type, pa.BaseExtensionType):
        return words_of([word_of(value) for value in column.to_pylist()])
    if pa.types.is_nested(column.type):
        raise TypeError(f"{column.type} holds no identifiers")
    return column.cast(pa.string())


def is_missing(words: pa.Array) -> NDArray[np.bool_]:
    """Which rows of a column of words have none, or only spaces: (n,)."""
    missing = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(words), ""), True)
    return np.asarray(missing.to_numpy(zero_copy_only=False))


def column_weights(column: pa.Array) -> NDArray[np.float64]:
    """The number in each row, NaN where there is none: (n,)."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        numbers = column.cast(pa.float64())
    except pa.ArrowException:
        return np.array([_number(value) for value in column.to_pylist()], dtype=np.float64)
    return np.asarray(pc.fill_null(numbers, np.nan).to_numpy(zero_copy_only=False), dtype=np.float64)


def are_weights(weights: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Which of them can be weights: (n,)."""
    return np.asarray((weights >= 0) & (weights <= LARGEST_WEIGHT))  # neither is true of NaN


def as_weights(weights: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """At the precision of training; what is too large becomes infinite, and is no weight."""
    with np.errstate(over="ignore"):
        return weights.astype(np.float32)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
