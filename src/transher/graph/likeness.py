"""Which texts look like another: by the three-letter pieces that they share.

Everything is built once, in flat arrays, so that a search among millions of texts takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_READ = 2_000_000  # entries of the index that one search may read
_LETTERS = 64  # pieces of what is typed that count
_COMPARED = 400  # texts whose likeness is told
_BUCKETS = 1 << 16  # of three-letter pieces: 16 bits, which NumPy sorts in linear time


class Pieces:
    """Which texts hold which pieces, as one flat array sorted by piece."""

    def __init__(self, texts: pa.LargeStringArray) -> None:
        codes, owners = _pieces(texts)
        self._texts = len(texts)
        self._owners: NDArray[np.int32] = owners[np.argsort(codes, kind="stable")]
        self._starts = np.zeros(_BUCKETS + 1, dtype=np.int64)
        np.cumsum(np.bincount(codes, minlength=_BUCKETS), out=self._starts[1:])

    def sharing(self, wanted: str) -> NDArray[np.int64]:
        """Positions of the texts that share most of the rarer pieces of `wanted`."""
        codes = np.unique(_pieces(pa.array([wanted], pa.large_string()))[0])[:_LETTERS].astype(np.int64)
        sizes = self._starts[codes + 1] - self._starts[codes]
        rarest = np.argsort(sizes, kind="stable")
        rarest = rarest[: max(1, int(np.searchsorted(np.cumsum(sizes[rarest]), _READ)))]
        hits = np.zeros(self._texts, dtype=np.uint8)
        for code in codes[rarest].tolist():
            # Within a piece the owners ascend: one that has it twice is added once, since both write the same value.
            owners = self._owners[self._starts[code] : self._starts[code + 1]]
            hits[owners] += 1
        # The least number of hits that leaves few enough to compare.
        at_least = np.cumsum(np.bincount(hits, minlength=2)[::-1])[::-1]
        few = np.flatnonzero(at_least <= _COMPARED)
        least = max(1, int(few[0]) - 1 if len(few) else len(at_least) - 1)
        places = np.flatnonzero(hits >= least)
        if len(places) > _COMPARED:
            places = np.sort(places[np.argpartition(hits[places], -_COMPARED)[-_COMPARED:]])
        return places


def pieces_shared(texts: pa.LargeStringArray, wanted: str) -> NDArray[np.float64]:
    """How alike each text is to `wanted`, from 0 to 1: 2·shared pieces / (its pieces + theirs). (n,)"""
    codes, owners = _pieces(texts)
    asked = np.unique(_pieces(pa.array([wanted], pa.large_string()))[0])
    held = np.unique(owners.astype(np.int64) * _BUCKETS + codes)  # each piece of a text once
    counts = np.bincount(held // _BUCKETS, minlength=len(texts))
    shared = np.bincount(held[np.isin(held % _BUCKETS, asked)] // _BUCKETS, minlength=len(texts))
    return np.asarray(2 * shared / (len(asked) + counts))


def letters_alike(texts: Sequence[str], wanted: str, share: float) -> NDArray[np.bool_]:
    """Whether each text has this share of its letters in common with `wanted`, in the same order: (n,)."""
    matcher = SequenceMatcher(b=wanted, autojunk=False)
    alike = np.zeros(len(texts), dtype=np.bool_)
    for place, text in enumerate(texts):
        matcher.set_seq1(text)
        bounds = (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)  # each is slower and no higher
        alike[place] = all(bound() >= share for bound in bounds)
    return alike


def _pieces(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint16], NDArray[np.int32]]:
    """The bucket of each three-byte piece of each text, and the position of its text: (m,), (m,)."""
    around = [pa.scalar(text, pa.large_string()) for text in ("  ", " ", "")]
    padded = pc.binary_join_element_wise(around[0], texts, around[1], around[2])
    lengths = pc.binary_length(padded).to_numpy().astype(np.int64)
    data = np.frombuffer(padded.buffers()[2] or b"", dtype=np.uint8)
    ends = np.cumsum(lengths)
    codes = _codes(data[: int(ends[-1])] if len(ends) else data[:0])
    owners = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[: len(codes)]
    whole = np.ones(len(codes), dtype=np.bool_)
    for back in (1, 2):  # a piece must not reach into the next text
        whole[(ends - back)[(ends - back) < len(codes)]] = False
    return codes[whole], owners[whole]


def _codes(data: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """The bucket of each three-byte piece: (bytes − 2,)."""
    if len(data) < 3:
        return np.zeros(0, dtype=np.uint16)
    wide = data.astype(np.uint32)
    mixed = (
        (wide[:-2] * np.uint32(0x9E3779B1)) ^ (wide[1:-1] * np.uint32(0x85EBCA6B)) ^ (wide[2:] * np.uint32(0xC2B2AE35))
    )
    codes: NDArray[np.uint16] = (mixed >> np.uint32(16)).astype(np.uint16)
    return codes
