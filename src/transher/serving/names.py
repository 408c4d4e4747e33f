"""Finding names as they are typed: by their beginning, and by three-letter pieces where letters are wrong or missing.

Everything is built once, in flat arrays, so that a search among millions of names takes milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transher.graph.vocabulary import Vocabulary

_LAST = "\U0010ffff"  # sorts after every text that begins the same
_READ = 2_000_000  # entries of the index that one search may read
_LETTERS = 64  # pieces of what is typed that count
_COMPARED = 400  # names that are compared in full
_ENOUGH = 0.3  # similarity from which a name is worth showing
_BUCKETS = 1 << 16  # of three-letter pieces: 16 bits, which NumPy sorts in linear time


class NameIndex:
    """Names and identifiers of a vocabulary, folded (lower case, without accents). `weights`: (n,), what comes first
    among equally good matches, as the degree of an entity."""

    def __init__(self, vocabulary: Vocabulary, weights: NDArray[np.integer]) -> None:
        self.vocabulary = vocabulary
        self.weights = weights
        count = len(vocabulary)
        identifiers = vocabulary.identifiers
        named = identifiers if vocabulary.names is None else pc.coalesce(vocabulary.names, identifiers)
        folded = _fold_all(named)
        texts, ids = folded, np.arange(count, dtype=np.int32)
        if vocabulary.names is not None:  # a name is found by its identifier too
            texts = pa.concat_arrays([folded, _fold_all(identifiers)])
            ids = np.concatenate([ids, ids])
        order = pc.sort_indices(texts)
        self._texts: pa.LargeStringArray = texts.take(order)
        self._ids: NDArray[np.int32] = ids[order.to_numpy()]
        self._folded = folded
        self._pieces = _Pieces(folded)

    def search(self, text: str, limit: int) -> list[int]:
        """Ids of the names that match `text`, best first: the very name, then those that begin with it, then those
        that look like it."""
        wanted = fold(text)
        if not wanted:
            return []
        exact = self._range(wanted, wanted + "\0")
        beginning = self._heaviest(self._range(wanted, wanted + _LAST), limit)
        found = list(dict.fromkeys([*self._heaviest(exact, limit), *beginning]))
        if len(found) < limit and len(wanted) > 1:
            found += [id for id in self._similar(wanted, limit) if id not in found]
        return found[:limit]

    def find(self, text: str) -> list[int]:
        """Ids that `text` may mean: its identifier alone, else the label or name as written, else in any case."""
        candidates = self._range(fold(text), fold(text) + "\0")
        if (cut := text.rfind(" (")) >= 0 and text.endswith(")"):  # a label of the form `name (identifier)`
            inner = fold(text[cut + 2 : -1])
            candidates = np.concatenate([candidates, self._range(inner, inner + "\0")])
        ids = list(dict.fromkeys(candidates.tolist()))
        if not ids:
            return []
        identifiers = self.vocabulary.identifiers.take(pa.array(ids)).to_pylist()
        labels = self.vocabulary.labels(ids)
        for texts in (identifiers, labels):
            same = [id for id, other in zip(ids, texts, strict=True) if other == text]
            if same:
                return same
        names = self.vocabulary.names
        plain = identifiers if names is None else names.take(pa.array(ids)).to_pylist()
        as_written = [id for id, name in zip(ids, plain, strict=True) if name == text]
        return as_written or [id for id, name in zip(ids, plain, strict=True) if fold(name or "") == fold(text)]

    def _range(self, first: str, end: str) -> NDArray[np.int32]:
        def text_at(place: int) -> str:
            return str(self._texts[place].as_py())

        places = range(len(self._texts))
        return self._ids[bisect_left(places, first, key=text_at) : bisect_left(places, end, key=text_at)]

    def _heaviest(self, ids: NDArray[np.int32], limit: int) -> list[int]:
        ids = ids[:_READ]
        if len(ids) > 2 * limit:
            ids = ids[np.argpartition(self.weights[ids], -2 * limit)[-2 * limit :]]
        order = np.argsort(-self.weights[ids].astype(np.int64), kind="stable")
        return list(dict.fromkeys(ids[order].tolist()))[:limit]

    def _similar(self, wanted: str, limit: int) -> list[int]:
        places, likeness = self._pieces.alike(wanted)
        if not len(places):
            return []
        texts = self._folded.take(pa.array(places))
        inside = pc.match_substring(texts, wanted).to_numpy(zero_copy_only=False)
        keep = inside | (likeness >= _ENOUGH)
        order = np.lexsort((-self.weights[places], -np.round(likeness + inside, 2)))
        return [int(place) for place in places[order[keep[order]]][:limit]]


class _Pieces:
    """Which texts hold which three-byte pieces, as one flat array sorted by piece."""

    def __init__(self, texts: pa.LargeStringArray) -> None:
        around = [pa.scalar(text, pa.large_string()) for text in ("  ", " ", "")]
        padded = pc.binary_join_element_wise(around[0], texts, around[1], around[2])
        lengths = pc.binary_length(padded).to_numpy().astype(np.int64)
        data = np.frombuffer(padded.buffers()[2] or b"", dtype=np.uint8)
        ends = np.cumsum(lengths)
        codes = _codes(data[: int(ends[-1])] if len(ends) else data[:0])
        owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)[: len(codes)]
        whole = np.ones(len(codes), dtype=np.bool_)
        for back in (1, 2):  # a piece must not reach into the next text
            whole[(ends - back)[(ends - back) < len(codes)]] = False
        codes, owner = codes[whole], owner[whole]
        order = np.argsort(codes, kind="stable")
        self._owners: NDArray[np.int32] = owner[order]
        self._starts = np.zeros(_BUCKETS + 1, dtype=np.int64)
        np.cumsum(np.bincount(codes, minlength=_BUCKETS), out=self._starts[1:])
        self._counts = np.maximum(lengths - 2, 1)

    def alike(self, wanted: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Places of the texts that share most pieces with `wanted`, and how much: 2·shared / (its pieces + theirs)."""
        codes = np.unique(_codes(np.frombuffer(f"  {wanted} ".encode(), dtype=np.uint8)))[:_LETTERS].astype(np.int64)
        sizes = self._starts[codes + 1] - self._starts[codes]
        rarest = np.argsort(sizes, kind="stable")
        rarest = rarest[: max(1, int(np.searchsorted(np.cumsum(sizes[rarest]), _READ)))]
        hits = np.zeros(len(self._counts), dtype=np.uint8)
        for code in codes[rarest].tolist():
            # Within a piece the owners ascend: one that has it twice is added once, since both write the same value.
            owners = self._owners[self._starts[code] : self._starts[code + 1]]
            hits[owners] += 1
        # The least number of hits that leaves few enough to compare.
        at_least = np.cumsum(np.bincount(hits, minlength=2)[::-1])[::-1]
        few = np.flatnonzero(at_least <= _COMPARED)
        least = max(1, int(few[0]) - 1 if len(few) else len(at_least) - 1)
        places = np.flatnonzero(hits >= least)
        likeness = 2 * hits[places] / (len(codes) + self._counts[places])
        if len(places) > _COMPARED:
            kept = np.argpartition(likeness + hits[places] / len(codes), -_COMPARED)[-_COMPARED:]
            places, likeness = places[kept], likeness[kept]
        return places, likeness


@lru_cache(maxsize=4096)  # Arrow's functions are made for many texts at once, and slow to start for one
def fold(text: str) -> str:
    """Lower case and without accents: what a person types on any keyboard."""
    return str(_fold_all(pa.array([text]))[0].as_py())


def _fold_all(texts: pa.Array) -> pa.LargeStringArray:
    """Folding twice changes nothing: signs are taken apart before they are lowered (℡ is TEL), and spaces are cut off
    last (´ is a space with an accent)."""
    lowered = pc.utf8_lower(pc.utf8_normalize(texts.cast(pa.large_string()), form="NFKD"))
    apart = pc.utf8_normalize(lowered, form="NFKD")
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(apart, pattern=r"\p{Mn}", replacement=""))


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
