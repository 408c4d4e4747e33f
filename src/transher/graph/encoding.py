"""From triples as files spell them to integer ids: bounded in memory, the same whatever the order of the lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transher.errors import TransherError
from transher.graph.graph import Triples

SPELLING = pa.dictionary(pa.int32(), pa.string())


@dataclass
class SpelledTriples:
    """Triples in the words of their files: per column a list of dictionary-encoded blocks, each with its own
    dictionary, so that a word is kept once per block and not once per line."""

    heads: list[pa.DictionaryArray] = field(default_factory=list)
    relations: list[pa.DictionaryArray] = field(default_factory=list)
    tails: list[pa.DictionaryArray] = field(default_factory=list)
    weights: NDArray[np.float32] | None = None  # (n,)
    trimmed: int = 0  # words that had spaces around them

    def append(self, heads: pa.Array, relations: pa.Array, tails: pa.Array) -> None:
        """Add a block of three string or dictionary arrays of one length. Spaces around words are taken away."""
        for column, block in ((self.heads, heads), (self.relations, relations), (self.tails, tails)):
            encoded = block if pa.types.is_dictionary(block.type) else block.dictionary_encode()
            trimmed, count = _trimmed(encoded)
            column.append(trimmed)
            self.trimmed += count

    def extend(self, other: SpelledTriples) -> None:
        """Add the triples of another file. Both have weights, or neither has, or there were none so far."""
        self.heads += other.heads
        self.relations += other.relations
        self.tails += other.tails
        if other.weights is not None:
            self.weights = other.weights if self.weights is None else np.concatenate([self.weights, other.weights])
        self.trimmed += other.trimmed

    def drop_first(self) -> None:
        """Take the first triple out."""
        for column in (self.heads, self.relations, self.tails):
            column[0] = column[0][1:].dictionary_decode().dictionary_encode()  # a word that is gone is no entity
        if self.weights is not None:
            self.weights = self.weights[1:]

    def __len__(self) -> int:
        return sum(len(block) for block in self.heads)

    def has_empty(self) -> bool:
        """Whether some identifier is empty or null."""
        return any(
            block.null_count or pc.any(pc.equal(block.dictionary, "")).as_py()
            for column in (self.heads, self.relations, self.tails)
            for block in column
        )

    def first_stands_alone(self) -> bool:
        """Whether the relation and both entities of the first triple occur nowhere else, while other triples share
        relations: so stands a header that was taken for a triple."""
        head, relation, tail = (column[0][0].as_py() for column in (self.heads, self.relations, self.tails))
        ends = [*self.heads, *self.tails]
        if head == tail or any(
            _count(blocks, word) != 1 for blocks, word in ((self.relations, relation), (ends, head), (ends, tail))
        ):
            return False
        words = pa.chunked_array([block.dictionary for block in self.relations], pa.string())
        return len(self) > len(words.unique())


def _trimmed(block: pa.DictionaryArray) -> tuple[pa.DictionaryArray, int]:
    """The block with words without surrounding spaces, and how many of its rows had such a word."""
    words = pc.utf8_trim_whitespace(block.dictionary)
    changed = pc.not_equal(words, block.dictionary)
    if not pc.any(changed).as_py():
        return block, 0
    # Two words may have become one: a dictionary has each once.
    return words.take(block.indices).dictionary_encode(), int(pc.sum(changed.take(block.indices)).as_py() or 0)


def _count(blocks: list[pa.DictionaryArray], word: str) -> int:
    """How often a word occurs."""
    codes = (pc.index(block.dictionary, word).as_py() for block in blocks)
    found = ((block, code) for block, code in zip(blocks, codes, strict=True) if code >= 0)
    return sum(int(pc.sum(pc.equal(block.indices, code)).as_py() or 0) for block, code in found)


def encode(files: Sequence[SpelledTriples]) -> tuple[pa.StringArray, pa.StringArray, list[Triples]]:
    """Sorted identifiers of entities and of relations, and each file's triples (n, 3) as positions in them."""
    triples = [np.empty((len(file), 3), dtype=np.int32) for file in files]
    relations = _encode_columns((file.relations, target[:, 1]) for file, target in zip(files, triples, strict=True))
    entities = _encode_columns(
        (blocks, target[:, column])
        for file, target in zip(files, triples, strict=True)
        for column, blocks in ((0, file.heads), (2, file.tails))
    )
    return entities, relations, triples


def _encode_columns(columns: Iterable[tuple[list[pa.DictionaryArray], NDArray[np.int32]]]) -> pa.StringArray:
    """Fill each target with the ids of its blocks' words, and return the words, sorted by their bytes."""
    blocks: list[pa.DictionaryArray] = []
    targets: list[NDArray[np.int32]] = []
    for column, target in columns:
        start = 0
        for block in column:
            blocks.append(block)
            targets.append(target[start : start + len(block)])
            start += len(block)
        column.clear()  # from here on the blocks live in one place only
    if not blocks:
        return pa.array([], pa.string())
    unified = pa.chunked_array(blocks).unify_dictionaries()
    blocks.clear()
    words = unified.chunk(0).dictionary
    order = pc.array_sort_indices(words).to_numpy()
    ranks = np.empty(len(order), dtype=np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    for block, target in zip(unified.chunks, targets, strict=True):
        np.take(ranks, block.indices.to_numpy(), out=target)
    return words.take(pa.array(order))


def triple_keys(triples: Triples, entity_count: int, relation_count: int) -> NDArray[np.int64]:
    """One integer per triple, equal for equal triples and in the order (head, relation, tail): (n,)."""
    if entity_count * entity_count * relation_count > np.iinfo(np.int64).max:
        raise TransherError(
            f"{entity_count:,} entities with {relation_count:,} relations are too many: a triple must fit into 64 bits."
        )
    keys = triples[:, 0].astype(np.int64)
    keys *= relation_count
    keys += triples[:, 1]
    keys *= entity_count
    keys += triples[:, 2]
    return keys


def first_occurrences(keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each key, (n,), is the first of its kind: (n,). The full sort is of bare values, several times cheaper
    than an argsort; only keys that occur more than once are looked at again."""
    first = np.ones(len(keys), dtype=np.bool_)
    ordered = np.sort(keys)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        places = np.flatnonzero(np.isin(keys, repeated))
        first[places] = False
        first[places[np.unique(keys[places], return_index=True)[1]]] = True
    return first
