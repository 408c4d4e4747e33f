"""Names: from integer ids to what people read, and back from what people type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transher.errors import UsageError, nearest

_LISTED = 10  # how many entries of an ambiguous name an error lists
_COMPARED = 300  # how many strings an unknown name is compared with in full
_FRAGMENTS = 12  # how many of its three-letter pieces choose those


@dataclass(frozen=True)
class Vocabulary:
    """Identifiers of entities or relations in id order, with optional names and descriptions for people.

    All three are Arrow string arrays of the same length: millions of Python strings would take ten times the memory.
    """

    kind: str  # "entity" or "relation", for messages
    identifiers: pa.StringArray
    names: pa.StringArray | None = None  # null where there is none
    descriptions: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.identifiers)

    def label(self, id: int) -> str:
        """What a person reads for `id`: see `labels`."""
        return self.labels([id])[0]

    def labels(self, ids: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """What a person reads for each of `ids`: its name; `Paris (Q90)` where others are called the same; its
        identifier where it has no name. `find` takes each back to its id."""
        indices = pa.array(np.asarray(ids, dtype=np.int64))
        identifiers = self.identifiers.take(indices)
        if self.names is None:
            return list(identifiers.to_pylist())
        names = self.names.take(indices)
        both = pc.binary_join_element_wise(names, pc.binary_join_element_wise("(", identifiers, ")", ""), " ")
        shared = pa.array(self._shared[indices.to_numpy()])
        return list(pc.coalesce(pc.if_else(shared, both, names), identifiers).to_pylist())

    def ids(self, identifiers: pa.Array) -> NDArray[np.int32]:
        """The id of each identifier, −1 where there is no such."""
        found = pc.fill_null(pc.index_in(identifiers, value_set=self.identifiers), -1)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int32)

    def find(self, text: str) -> int:
        """The id that `text` means: an identifier, else a label, else a name as written, else a name in any case."""
        return int(self.find_all(pa.array([text], pa.string()))[0])

    def find_all(self, words: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
        """The id that each of many words means, as `find` takes them: (n,)."""
        if isinstance(words, pa.ChunkedArray):
            words = words.combine_chunks()
        encoded = words if pa.types.is_dictionary(words.type) else words.dictionary_encode()
        ids = self.known(encoded.dictionary)
        if (ids < 0).any():
            text = encoded.dictionary[int((ids < 0).argmax())].as_py()
            suggestion = nearest(text, self._similar(text)) or f"None of its {len(self):,} looks like it."
            raise UsageError(f"The graph has no {self.kind} called {text!r}. {suggestion}")
        return np.asarray(ids[encoded.indices.to_numpy()])

    def known(self, words: pa.StringArray) -> NDArray[np.int64]:
        """The id that each word means, as `find` takes them, −1 where it means nothing: (n,). Each of the arrays is
        gone over once, however many words there are. A name that several have is an error."""
        ids, _ = _places(self.identifiers, words)
        if self.names is None:
            return ids
        left = np.flatnonzero(ids < 0)
        ids[left] = self._labelled(words.take(pa.array(left)).to_pylist())
        for fold in (lambda strings: strings, pc.utf8_lower):
            left = np.flatnonzero(ids < 0)
            if not len(left):
                break
            names, wanted = fold(self.names), fold(words.take(pa.array(left)))
            ids[left], counts = _places(names, wanted)
            if (counts > 1).any():
                one = int((counts > 1).argmax())
                matches = pc.indices_nonzero(pc.equal(names, wanted[one])).to_numpy()
                raise UsageError(self._ambiguous(words[int(left[one])].as_py(), matches))
        return ids

    @cached_property
    def _shared(self) -> NDArray[np.bool_]:
        """Whether a name alone would be ambiguous: another entry has the same name, or has it as its identifier."""
        assert self.names is not None
        encoded = self.names.dictionary_encode()
        codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
        shared = np.bincount(codes, minlength=len(encoded.dictionary) + 1) > 1
        shared[:-1] |= pc.is_in(encoded.dictionary, value_set=self.identifiers).to_numpy(zero_copy_only=False)
        return np.asarray(shared[codes], dtype=np.bool_)

    def _labelled(self, words: list[str]) -> NDArray[np.int64]:
        """The id of each word of the form `name (identifier)`, −1 for others. Either part may itself hold brackets."""
        assert self.names is not None
        ids = np.full(len(words), -1)
        cuts = [
            (place, word[:cut], word[cut + 2 : -1])
            for place, word in enumerate(words)
            if word.endswith(")")
            for cut in range(len(word))
            if word.startswith(" (", cut)
        ]
        if cuts:
            places, names, identifiers = zip(*cuts, strict=True)
            found, _ = _places(self.identifiers, pa.array(identifiers, pa.string()))
            for place, name, id in zip(places, names, found.tolist(), strict=True):
                if id >= 0 and ids[place] < 0 and self.names[id].as_py() == name:
                    ids[place] = id
        return ids

    def _ambiguous(self, text: str, matches: NDArray[np.int64]) -> str:
        entries = []
        for id in matches[:_LISTED].tolist():
            description = None if self.descriptions is None else self.descriptions[id].as_py()
            entries.append(f"  {self.identifiers[id].as_py()}" + (f": {description}" if description else ""))
        if len(matches) > _LISTED:
            entries.append(f"  and {len(matches) - _LISTED:,} more")
        kinds = "entities" if self.kind == "entity" else f"{self.kind}s"
        return "\n".join([f"{len(matches):,} {kinds} are called {text!r}. Give the identifier:", *entries])

    def _similar(self, text: str) -> list[str]:
        """The names and identifiers that share most three-letter pieces with `text`: comparing millions of strings
        in full would take minutes, counting pieces takes a second."""
        lowered = text.lower()
        pieces = sorted({lowered[i : i + 3] for i in range(max(len(lowered) - 2, 1))})
        pieces = pieces[:: -(-len(pieces) // _FRAGMENTS)]
        similar: list[str] = []
        for strings in (self.names, self.identifiers):
            if strings is None:
                continue
            lengths = np.nan_to_num(pc.utf8_length(strings).to_numpy(zero_copy_only=False))
            # Less than that in common cannot be close, whatever the letters.
            plausible = np.flatnonzero((lengths >= max(0.4 * len(text), 1)) & (lengths <= 2.4 * len(text) + 1))
            candidates = pc.utf8_lower(strings.take(pa.array(plausible)))
            hits = np.zeros(len(plausible), dtype=np.int64)
            for piece in pieces:
                hits += pc.match_substring(candidates, piece).to_numpy(zero_copy_only=False)
            order = np.lexsort((np.abs(lengths[plausible] - len(text)), -hits))[:_COMPARED]
            similar += strings.take(pa.array(plausible[order])).to_pylist()
        return similar


def _places(strings: pa.StringArray, words: pa.StringArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each word first stands among `strings`, −1 for nowhere, and how often it does: (n,), (n,)."""
    encoded = words.dictionary_encode()
    standing = np.flatnonzero(pc.is_in(strings, value_set=encoded.dictionary).to_numpy(zero_copy_only=False))
    which = pc.index_in(strings.take(pa.array(standing)), value_set=encoded.dictionary).to_numpy()
    first = np.full(len(encoded.dictionary), -1)
    first[which[::-1]] = standing[::-1]
    counts = np.bincount(which, minlength=len(first))
    codes = encoded.indices.to_numpy()
    return first[codes], counts[codes]
