"""Facts back from a file that `transher.answering.writing` wrote: by ids, some at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pyoxigraph
from numpy.typing import NDArray

from transher.answering.writing import URN, refuse_unknown_ending, written
from transher.errors import InputError
from transher.graph.encoding import triple_keys
from transher.graph.graph import Graph, Triples

_COLUMNS = ["head_id", "relation_id", "tail_id"]
_BLOCK = 1 << 18  # facts that are in words at a time
_REMEDY = "Give a file that `transher complete` wrote."

Columns = tuple[pa.Array, pa.Array, pa.Array]


class Earlier:
    """Facts that are not wanted again: those of an earlier completion, and those that were called wrong. 8 bytes of
    each are kept. Facts with names that the graph does not have are left out: they cannot be found again."""

    def __init__(self, path: Path | None, graph: Graph, wrong: Triples | None = None) -> None:
        """path: the file of the earlier completion; wrong: (n, 3)."""
        self._sizes = len(graph.entities), len(graph.relations)
        parts = [] if wrong is None else [triple_keys(wrong, *self._sizes)]
        if path is not None:
            refuse_unknown_ending(path)
            if not path.is_file():
                raise InputError("there is no such file.", file=path, remedy=_REMEDY)
            parts += [triple_keys(triples, *self._sizes) for triples in _facts(path, graph)]
        self._keys: NDArray[np.int64] = np.unique(np.concatenate([np.empty(0, np.int64), *parts]))
        self.hash = hashlib.sha256(self._keys.tobytes()).hexdigest()

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, triples: Triples) -> NDArray[np.bool_]:
        """Which of triples (n, 3) are among them: (n,)."""
        keys = triple_keys(triples, *self._sizes)
        if not len(self._keys):
            return np.zeros(len(keys), np.bool_)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.asarray(self._keys[places] == keys)


def _facts(path: Path, graph: Graph) -> Iterator[Triples]:
    """The triples (n, 3) of a file whose names the graph has, block by block."""
    ending = path.suffix.lower()
    entities, relations = (written(words.identifiers, ending) for words in (graph.entities, graph.relations))
    try:
        for heads, relation, tails in _READERS[ending](path):
            triples = np.stack([_ids(heads, entities), _ids(relation, relations), _ids(tails, entities)], 1)
            yield triples[(triples >= 0).all(1)]
    except (pa.ArrowException, KeyError, SyntaxError, UnicodeDecodeError) as error:
        raise InputError(
            f"is not the file of a completion ({str(error).splitlines()[0]}).", file=path, remedy=_REMEDY
        ) from None


def _read_text(path: Path, parsing: pa.csv.ParseOptions) -> Iterator[Columns]:
    converting = pa.csv.ConvertOptions(
        include_columns=_COLUMNS, column_types=dict.fromkeys(_COLUMNS, pa.string()), null_values=[]
    )
    with pa.csv.open_csv(path, parse_options=parsing, convert_options=converting) as batches:
        for batch in batches:
            yield tuple(batch.column(name) for name in _COLUMNS)


def _read_tsv(path: Path) -> Iterator[Columns]:
    return _read_text(path, pa.csv.ParseOptions(delimiter="\t", quote_char=False))


def _read_csv(path: Path) -> Iterator[Columns]:
    return _read_text(path, pa.csv.ParseOptions(newlines_in_values=True))


def _read_parquet(path: Path) -> Iterator[Columns]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BLOCK, columns=_COLUMNS):
            yield tuple(batch.column(name).cast(pa.string()) for name in _COLUMNS)


def _read_rdf(path: Path) -> Iterator[Columns]:
    quads = pyoxigraph.parse(path=path)
    while block := list(islice(quads, _BLOCK)):
        columns = zip(*((quad.subject, quad.predicate, quad.object) for quad in block), strict=True)
        yield tuple(pa.array([_identifier(term) for term in column], pa.string()) for column in columns)


def _identifier(term: object) -> str:
    """The identifier that an RDF term was read from."""
    return term.value if isinstance(term, pyoxigraph.NamedNode) else str(term)


def _ids(words: pa.Array, names: pa.Array) -> NDArray[np.int32]:
    """The place of each word among names, −1 where it is none. What stands for an identifier that is no RDF term is
    taken for that identifier, unless it is itself one of the names."""
    found: NDArray[np.int32] = np.array(pc.fill_null(pc.index_in(words, value_set=names), -1), np.int32)
    places = np.flatnonzero((found < 0) & pc.starts_with(words, URN).to_numpy(zero_copy_only=False))
    if len(places):
        meant = [unquote(word.removeprefix(URN).partition(":")[2]) for word in words.take(places).to_pylist()]
        found[places] = pc.fill_null(pc.index_in(pa.array(meant, pa.string()), value_set=names), -1)
    return found


_READERS: dict[str, Callable[[Path], Iterator[Columns]]] = {
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".nt": _read_rdf,
}
