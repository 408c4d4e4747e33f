"""Joins without loops: for each of many queries, the positions of a whole range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ranges_of(
    sorted_keys: NDArray[np.integer], wanted: NDArray[np.integer]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each of `wanted`, (B,), starts in `sorted_keys` and how often it occurs there: (B,) each."""
    starts = np.searchsorted(sorted_keys, wanted, side="left")
    return starts, np.searchsorted(sorted_keys, wanted, side="right") - starts


def expand_ranges(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Offsets (B + 1,) and positions (offsets[-1],): query i's positions, `starts[i]` to `starts[i] + counts[i] − 1`,
    are `positions[offsets[i]:offsets[i + 1]]`."""
    offsets = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    positions = np.arange(offsets[-1], dtype=np.int64)
    positions += np.repeat(starts - offsets[:-1], counts)
    return offsets, positions
