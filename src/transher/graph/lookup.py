"""The one way from what people type to ids, and from ids to what they read.

A word means what it matches at the first of these levels:

1. an identifier,
2. a label of the form `Paris (Q90)`,
3. a name as written,
4. a name in any case,
5. a name folded: in any case, without accents and surrounding spaces, so that `Sao Paulo` is `São Paulo`,
6. the end of an IRI, from the start of a segment, as written: `section` or `vocab#section` for `http://…/vocab#section`,
7. such an end, folded,
8. an identifier, folded.

Several matches at that level are an error that lists them. Beginnings and likeness suggest, and never decide.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transher.errors import UnknownNameError
from transher.graph import iris
from transher.graph.likeness import Pieces, letters_alike, pieces_shared

Ids = NDArray[np.int64]

_LISTED = 10  # entries of an ambiguous name that an error lists
_SUGGESTED = 3
_FEW = 64  # words that are looked for in the index, if there is one; more, and going over every text is faster
_READ = 2_000_000  # entries of the index that one search may read
_ENOUGH = 0.3  # share of common pieces from which a name is worth showing
_CLOSE = 0.7  # share of common letters from which it is too
_LAST = "\U0010ffff"  # sorts after every text that begins the same
_DEEPEST = 12  # segments of an IRI that may tell it apart from others

# The forms of a label. A positive number is that many segments from the end of an IRI.
_IDENTIFIER, _NAME, _NAME_AND_IDENTIFIER = 0, -1, -2


class Lookup:
    """Identifiers in id order, with names and descriptions where there are some: Arrow string arrays.

    What it needs is made when it is first needed and kept. Without `prepare`, finding goes over all texts once per
    call, which is fast enough for a command; `prepare` makes an index, with which a word takes under a millisecond.
    """

    def __init__(
        self,
        kind: str,
        identifiers: pa.StringArray,
        names: pa.StringArray | None = None,
        descriptions: pa.StringArray | None = None,
    ) -> None:
        self.kind, self.identifiers, self.descriptions = kind, identifiers, descriptions
        names = pa.nulls(len(identifiers), pa.string()) if names is None else names
        self.names: pa.StringArray = _null_where(names, pc.equal(pc.utf8_trim_whitespace(names), ""))
        self._index: _Index | None = None

    def prepare(self) -> None:
        """Build the index, the pieces and the forms of labels now. A server does, so that no request waits for them."""
        self._indexed()
        _ = self._pieces, self._forms

    # --- from ids to what people read

    def labels(self, ids: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """What a person reads for each of `ids`. The first of these that `find` takes back to it: its name;
        `Paris (Q90)`; without a name, as few segments from the end of its IRI as tell it apart; its identifier."""
        wanted = np.asarray(ids, dtype=np.int64)
        forms = self._forms[wanted]
        labels = np.empty(len(wanted), dtype=object)
        for form in np.unique(forms).tolist():
            places = np.flatnonzero(forms == form)
            labels[places] = self._written(wanted[places], form).to_pylist()
        return list(labels)

    @cached_property
    def _forms(self) -> NDArray[np.int8]:
        """The form of each id's label: (n,)."""
        forms = np.full(len(self.identifiers), _IDENTIFIER, dtype=np.int8)
        named = self.names.is_valid().to_numpy(zero_copy_only=False)
        choices = ((named, (_NAME, _NAME_AND_IDENTIFIER)), (~named, range(1, _DEEPEST + 1)))
        for entries, growing in choices:
            left = np.flatnonzero(entries)
            for form in growing:
                texts = self._written(left, form)
                left = left[texts.is_valid().to_numpy(zero_copy_only=False)]  # the others are as long as they get
                if not len(left):
                    break
                found = self._matches(texts.drop_null(), _EVERY_LEVEL)
                told = (found.first == left) & (found.counts == 1)
                forms[left[told]], left = form, left[~told]
        return forms

    def _written(self, ids: Ids, form: int) -> pa.StringArray:
        """Each of `ids` in this form, null where it has no such."""
        identifiers = self.identifiers.take(pa.array(ids))
        if form == _IDENTIFIER:
            return identifiers
        if form > 0:
            return iris.ends(identifiers, form)
        names = self.names.take(pa.array(ids))
        if form == _NAME:
            return names
        return pc.binary_join_element_wise(names, pc.binary_join_element_wise("(", identifiers, ")", ""), " ")

    # --- from what people type to ids

    def find(self, text: str) -> int:
        """The id that `text` means. UnknownNameError if it means nothing, or several."""
        return int(self.find_all(_word(text))[0])

    def find_all(self, words: pa.Array | pa.ChunkedArray) -> Ids:
        """The id that each of many words means: (n,). All texts are gone over once, however many words there are."""
        distinct, codes = _distinct(words)
        ids = self._unambiguous(distinct, _EVERY_LEVEL)
        if (ids < 0).any():
            raise self._unknown(distinct[int((ids < 0).argmax())].as_py())
        return ids[codes]

    def find_unambiguous(self, words: pa.Array | pa.ChunkedArray) -> Ids:
        """As `find_all`, with −1 where a word means nothing, or several: (n,)."""
        distinct, codes = _distinct(words)
        found = self._matches(distinct, _EVERY_LEVEL)
        return np.where(found.counts == 1, found.first, -1)[codes]

    def known(self, words: pa.Array) -> Ids:
        """The id that each word means in new triples, −1 where it means nothing: (n,).

        Only identifiers, labels of the form `Paris (Q90)` and names count, the names as written or folded. Ends of IRIs
        and folded identifiers do not count: a new entity `section` must not become an old IRI that ends in `section`.
        """
        distinct, codes = _distinct(words)
        return self._unambiguous(distinct, _NAMED_LEVELS)[codes]

    def search(self, text: str, limit: int, weights: NDArray[np.integer] | None = None) -> list[int]:
        """Ids that `text` may become as it is typed, best first: what it means, what begins with it, what looks like
        it. `weights`: (n,), what comes first among equals, such as the degree of an entity."""
        wanted = fold(text)
        if not wanted:
            return []
        index = self._indexed()
        meant = self._matches(_word(text), _EVERY_LEVEL).ids
        groups: list[NDArray[Any]] = [meant, index.equal(wanted), index.beginning(wanted)]
        found = list(dict.fromkeys(id for group in groups for id in _heaviest(group, weights, limit)))
        if len(found) < limit and len(wanted) > 1:
            found += [id for id in self._alike(wanted, limit, weights) if id not in found]
        return found[:limit]

    def _unambiguous(self, words: pa.StringArray, levels: Sequence[_Level]) -> Ids:
        found = self._matches(words, levels)
        if (found.counts > 1).any():
            word = words.slice(int((found.counts > 1).argmax()), 1)
            raise self._ambiguous(word[0].as_py(), self._matches(word, levels).ids)
        return found.first

    def _matches(self, words: pa.StringArray, levels: Sequence[_Level]) -> _Matches:
        """What each word matches at the first level at which it matches anything."""
        if self._index is not None and 0 < len(words) <= _FEW:
            rows = self._index.candidates(words.to_pylist(), self._schemes)
            return self._narrowed(rows)._matches(words, levels).among(rows)
        found = _Matches.none(len(words))
        for level in levels:
            left = np.flatnonzero(found.counts == 0)
            if not len(left) or not len(self.identifiers):
                break
            found.add(left, level(self, words.take(pa.array(left))))
        return found

    def _narrowed(self, rows: Ids) -> Lookup:
        """The lookup of these ids alone, in which they are 0, 1, …"""
        taken = pa.array(rows)
        return Lookup(self.kind, self.identifiers.take(taken), self.names.take(taken))

    # --- the levels: what each word matches

    def _by_identifier(self, words: pa.StringArray) -> _Matches:
        return _equal(self.identifiers, words)

    def _by_label(self, words: pa.StringArray) -> _Matches:
        """Words of the form `name (identifier)`. Either part may itself hold brackets."""
        found = _Matches.none(len(words))
        bracketed = np.flatnonzero(pc.ends_with(words, ")").to_numpy(zero_copy_only=False)).tolist()
        cuts = [(place, *cut) for place in bracketed for cut in _cuts(words[place].as_py())]
        if not cuts:
            return found
        places, names, identifiers = zip(*cuts, strict=True)
        ids = _equal(self.identifiers, pa.array(identifiers, pa.string())).first
        called = self.names.take(pa.array(np.maximum(ids, 0))).to_pylist()
        for place, name, id, other in zip(places, names, ids.tolist(), called, strict=True):
            if id >= 0 and found.counts[place] == 0 and name == other:
                found.first[place], found.counts[place] = id, 1
        found.ids = found.first[found.counts > 0]
        return found

    def _by_name(self, words: pa.StringArray) -> _Matches:
        return _equal(self.names, words)

    def _by_name_in_any_case(self, words: pa.StringArray) -> _Matches:
        return _equal(self._lowered_names, pc.utf8_lower(words))

    def _by_folded_name(self, words: pa.StringArray) -> _Matches:
        return _equal(self._folded_names, _folded_words(words))

    def _by_end(self, words: pa.StringArray) -> _Matches:
        return self._ending(words, self._last_segments, lambda ends: ends)

    def _by_folded_end(self, words: pa.StringArray) -> _Matches:
        return self._ending(_folded_words(words), self._folded_last_segments, fold_all)

    def _by_folded_identifier(self, words: pa.StringArray) -> _Matches:
        return _equal(self._folded_identifiers, _folded_words(words))

    def _ending(self, words: pa.Array, last_segments: pa.Array, fold: Callable[[pa.Array], pa.Array]) -> _Matches:
        """The IRIs that end in each word, from the start of a segment."""
        found = _Matches.none(len(words))
        for scheme in self._schemes:
            asked = scheme.trimmed(words)
            depths = scheme.depths(asked).fill_null(0).to_numpy()
            for depth in np.unique(depths[(depths > 1) & (depths <= _DEEPEST)]).tolist():
                places = np.flatnonzero(depths == depth)
                texts = asked.take(pa.array(places))
                # Ends are made only of IRIs whose last segment is a word's.
                rows = _equal(last_segments, scheme.last_segments(texts)).ids
                ends = fold(scheme.ends(self.identifiers.take(pa.array(rows)), depth))
                found.add(places, _equal(ends, texts).among(rows))
        # The last segments of all schemes are in one array: none has a separator of its own scheme.
        found.add(np.arange(len(words)), _equal(last_segments, iris.WEB.trimmed(words)))
        return found

    @cached_property
    def _schemes(self) -> list[iris.Scheme]:
        """Those of the identifiers that are IRIs."""
        return [scheme for scheme in iris.SCHEMES if scheme.occurs(self.identifiers)]

    @cached_property
    def _lowered_names(self) -> pa.StringArray:
        return pc.utf8_lower(self.names)

    @cached_property
    def _folded_names(self) -> pa.LargeStringArray:
        return fold_all(self.names)

    @cached_property
    def _folded_identifiers(self) -> pa.LargeStringArray:
        return fold_all(self.identifiers)

    @cached_property
    def _last_segments(self) -> pa.StringArray:
        """The last segment of every IRI, null where the identifier is none."""
        return iris.ends(self.identifiers, 1)

    @cached_property
    def _folded_last_segments(self) -> pa.LargeStringArray:
        return fold_all(self._last_segments)

    # --- suggestions

    def _indexed(self) -> _Index:
        if self._index is None:
            self._index = _Index([self._folded_names, self._folded_identifiers, self._folded_last_segments])
            for name in ("_lowered_names", "_folded_names", "_folded_identifiers", "_folded_last_segments"):
                vars(self).pop(name, None)  # only many words at once need them again
        return self._index

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self._read(None))

    def _read(self, ids: Ids | None) -> pa.LargeStringArray:
        """What each id is called, folded: its name, else the last segment of its IRI, else its identifier."""
        part = self if ids is None else self._narrowed(ids)
        return fold_all(pc.coalesce(part.names, part._last_segments, part.identifiers))

    def _alike(self, wanted: str, limit: int, weights: NDArray[np.integer] | None) -> list[int]:
        ids = self._pieces.sharing(wanted)
        if not len(ids):
            return []
        texts = self._read(ids)
        likeness = pieces_shared(texts, wanted) + pc.match_substring(texts, wanted).to_numpy(zero_copy_only=False)
        if (likeness >= _ENOUGH).sum() < limit:  # short words with a wrong letter share few pieces
            likeness = np.maximum(likeness, _ENOUGH * letters_alike(texts.to_pylist(), wanted, _CLOSE))
        heaviness = np.zeros(len(ids)) if weights is None else -weights[ids].astype(np.int64)
        order = np.lexsort((heaviness, -np.round(likeness, 2)))
        return [int(id) for id in ids[order[likeness[order] >= _ENOUGH]][:limit]]

    def _unknown(self, text: str) -> UnknownNameError:
        suggestions = self.labels(self.search(text, _SUGGESTED))
        meant = " or ".join(repr(label) for label in suggestions)
        hint = f"Did you mean {meant}?" if meant else f"None of its {len(self.identifiers):,} looks like it."
        return UnknownNameError(f"The graph has no {self.kind} called {text!r}. {hint}", suggestions)

    def _ambiguous(self, text: str, ids: Ids) -> UnknownNameError:
        listed = np.sort(ids)[:_LISTED]
        labels = self.labels(listed)
        entries = []
        for id in listed.tolist():
            description = None if self.descriptions is None else self.descriptions[id].as_py()
            entries.append(f"  {self.identifiers[id].as_py()}" + (f": {description}" if description else ""))
        if len(ids) > _LISTED:
            entries.append(f"  and {len(ids) - _LISTED:,} more")
        kinds = "entities" if self.kind == "entity" else f"{self.kind}s"
        remedy = f"Give the identifier, or a label such as {labels[0]!r}:"
        return UnknownNameError("\n".join([f"{len(ids):,} {kinds} are called {text!r}. {remedy}", *entries]), labels)


_Level = Callable[[Lookup, pa.StringArray], "_Matches"]
_NAMED_LEVELS: tuple[_Level, ...] = (
    Lookup._by_identifier,
    Lookup._by_label,
    Lookup._by_name,
    Lookup._by_name_in_any_case,
    Lookup._by_folded_name,
)
_EVERY_LEVEL: tuple[_Level, ...] = (
    *_NAMED_LEVELS,
    Lookup._by_end,
    Lookup._by_folded_end,
    Lookup._by_folded_identifier,
)


@dataclass
class _Matches:
    """What n words match."""

    first: Ids  # (n,), the least id of each word's matches, −1 for none
    counts: Ids  # (n,), how many each has
    ids: Ids  # (m,), the matches of all words

    @staticmethod
    def none(count: int) -> _Matches:
        return _Matches(np.full(count, -1), np.zeros(count, dtype=np.int64), np.zeros(0, dtype=np.int64))

    def add(self, places: Ids, others: _Matches) -> None:
        """Further matches, of the words at `places`."""
        mine = self.first[places]
        both = np.minimum(mine, others.first)
        self.first[places] = np.where(both < 0, np.maximum(mine, others.first), both)
        self.counts[places] += others.counts
        self.ids = np.concatenate([self.ids, others.ids])

    def among(self, rows: Ids) -> _Matches:
        """The same matches, found among the ascending ids `rows`."""
        if not len(rows):
            return self
        return _Matches(np.where(self.first < 0, -1, rows[self.first]), self.counts, rows[self.ids])


def _equal(texts: pa.Array, words: pa.Array) -> _Matches:
    """The texts, by their positions, that equal each word. A null equals nothing."""
    if texts.null_count == len(texts):
        return _Matches.none(len(words))
    encoded = words.cast(texts.type).dictionary_encode()
    places = pc.index_in(texts, value_set=encoded.dictionary)
    ids = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
    which = places.drop_null().to_numpy()
    size = len(encoded.dictionary)
    first = np.full(size + 1, -1)  # the last is what a null finds
    first[which[::-1]] = ids[::-1]
    counts = np.bincount(which, minlength=size + 1)
    codes = encoded.indices.fill_null(size).to_numpy()
    return _Matches(first[codes], counts[codes], ids)


class _Index:
    """Folded texts in order, several to an id: what equals a word and what begins with it takes two bisections."""

    def __init__(self, columns: Sequence[pa.LargeStringArray]) -> None:
        """Each column: (n,), null where an id has no such text."""
        kept = [column.is_valid().to_numpy(zero_copy_only=False) for column in columns]
        ids = np.concatenate([np.flatnonzero(valid).astype(np.int32) for valid in kept])
        texts = pa.concat_arrays([column.drop_null() for column in columns])
        order = pc.sort_indices(texts)
        self._texts: pa.LargeStringArray = texts.take(order)
        self._ids: NDArray[np.int32] = ids[order.to_numpy()]

    def equal(self, folded: str) -> NDArray[np.int32]:
        return self._range(folded, folded + "\0")

    def beginning(self, folded: str) -> NDArray[np.int32]:
        return self._range(folded, folded + _LAST)

    def candidates(self, words: Sequence[str], schemes: Sequence[iris.Scheme]) -> Ids:
        """Every id that one of the words may match at some level, and others: ascending. `schemes`: of the IRIs."""
        texts: set[str] = set()
        for word in words:
            texts.add(fold(word))
            texts.update(fold(identifier) for _, identifier in _cuts(word))
            for scheme in schemes:
                texts |= {fold(scheme.last_segment(word)), scheme.last_segment(fold(word))}
        return np.unique(np.concatenate([self.equal(text) for text in texts])).astype(np.int64)

    def _range(self, first: str, end: str) -> NDArray[np.int32]:
        def text_at(place: int) -> str:
            return str(self._texts[place].as_py())

        places = range(len(self._texts))
        return self._ids[bisect_left(places, first, key=text_at) : bisect_left(places, end, key=text_at)]


def _heaviest(ids: NDArray[np.integer], weights: NDArray[np.integer] | None, limit: int) -> list[int]:
    ids = ids[:_READ]
    if weights is not None:
        if len(ids) > 3 * limit:  # an id may stand three times
            ids = ids[np.argpartition(weights[ids], -3 * limit)[-3 * limit :]]
        ids = ids[np.argsort(-weights[ids].astype(np.int64), kind="stable")]
    return list(dict.fromkeys(ids[: 3 * limit].tolist()))[:limit]


# --- words


def _word(text: str) -> pa.StringArray:
    """Half a character, as a terminal may pass on, is none that any name has."""
    return pa.array([text.encode("utf-8", "replace").decode()], pa.string())


def _distinct(words: pa.Array | pa.ChunkedArray) -> tuple[pa.StringArray, Ids]:
    """The distinct words, and which of them each one is: (n,)."""
    if isinstance(words, pa.ChunkedArray):
        words = words.combine_chunks()
    if pa.types.is_dictionary(words.type):  # which may hold words that are not there
        words = words.dictionary_decode()
    encoded = words.cast(pa.string()).fill_null("").dictionary_encode()
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)


def _cuts(word: str) -> list[tuple[str, str]]:
    """Every way to read a word as `name (identifier)`."""
    if not word.endswith(")"):
        return []
    return [(word[:cut], word[cut + 2 : -1]) for cut in range(len(word)) if word.startswith(" (", cut)]


@lru_cache(maxsize=4096)  # Arrow's functions are made for many texts at once, and slow to start for one
def fold(text: str) -> str:
    """Lower case, without accents and surrounding spaces: what a person types on any keyboard."""
    return text.lower().strip() if text.isascii() else str(fold_all(_word(text))[0].as_py())


def fold_all(texts: pa.Array) -> pa.LargeStringArray:
    """Folding twice changes nothing: signs are taken apart before they are lowered (℡ is TEL), and spaces are cut off
    last (´ is a space with an accent). The sigma at the end of a word is the sigma that upper case makes of it."""
    texts = texts.cast(pa.large_string())
    if pc.all(pc.string_is_ascii(texts), min_count=0).as_py():  # the same, and ten times as fast
        return pc.utf8_trim_whitespace(pc.ascii_lower(texts))
    lowered = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKD"))
    apart = pc.replace_substring(pc.utf8_normalize(lowered, form="NFKD"), "ς", "σ")
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(apart, pattern=r"\p{Mn}", replacement=""))


def _folded_words(words: pa.StringArray) -> pa.LargeStringArray:
    """A word of which nothing is left means nothing."""
    folded = fold_all(words)
    return _null_where(folded, pc.equal(folded, ""))


def _null_where(texts: pa.Array, condition: pa.Array) -> pa.Array:
    return pc.if_else(condition, pa.scalar(None, texts.type), texts)
