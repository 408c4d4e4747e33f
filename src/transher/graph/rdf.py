"""Triples, names and descriptions from N-Triples and Turtle files."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyoxigraph

from transher.errors import InputError
from transher.graph.encoding import SpelledTriples
from transher.graph.faults import open_bytes
from transher.graph.names import Names
from transher.graph.sources import ending

_NAME_PREDICATES = {
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
}
_DESCRIPTION_PREDICATES = {
    "http://www.w3.org/2000/01/rdf-schema#comment",
    "http://schema.org/description",
    "https://schema.org/description",
}
_BLOCK = 500_000
_FORMATS = {".nt": pyoxigraph.RdfFormat.N_TRIPLES, ".ttl": pyoxigraph.RdfFormat.TURTLE}
_DRAWN_LABEL = re.compile("_:[a-f][0-9a-f]{19,31}")  # 128 bits in hex, without leading zeros

# A text for people and how welcome its language is: 0 English, 1 none given, 2 another.
_Text = tuple[int, str]


class RdfFile:
    """What one file says: its triples, what it calls things, and how many other literals were left out."""

    def __init__(self, path: Path, keep_literals: bool) -> None:
        self.triples = SpelledTriples()
        self.literals_left_out = 0
        self._names: dict[str, _Text] = {}
        self._descriptions: dict[str, _Text] = {}
        self._anonymous: dict[str, str] = {}
        self._numbers_nodes = ending(path) == ".ttl"
        self._stem = path.name.split(".")[0]
        self._read(path, keep_literals)

    @property
    def names(self) -> Names | None:
        subjects = sorted(self._names.keys() | self._descriptions.keys())
        if not subjects:
            return None
        return Names(
            pa.array(subjects, pa.string()),
            pa.array([self._names.get(subject, (0, None))[1] for subject in subjects], pa.string()),
            pa.array([self._descriptions.get(subject, (0, None))[1] for subject in subjects], pa.string()),
        )

    def _read(self, path: Path, keep_literals: bool) -> None:
        rdf_format = _FORMATS[ending(path)]
        heads: list[str] = []
        relations: list[str] = []
        tails: list[str] = []
        try:
            with open_bytes(path) as file:
                for quad in pyoxigraph.parse(file, rdf_format):
                    head, relation, value = self._spelled(quad.subject), quad.predicate.value, quad.object
                    if isinstance(value, pyoxigraph.Literal):
                        if relation in _NAME_PREDICATES:
                            _keep_best(self._names, head, value)
                            continue
                        if relation in _DESCRIPTION_PREDICATES:
                            _keep_best(self._descriptions, head, value)
                            continue
                        if not keep_literals:
                            self.literals_left_out += 1
                            continue
                    heads.append(head)
                    relations.append(relation)
                    tails.append(self._spelled(value))
                    if len(heads) == _BLOCK:
                        self._append(heads, relations, tails)
        except SyntaxError as error:
            what = re.sub(r"^Parser error at .*?: ", "", error.msg)  # the line is named already
            raise InputError(f"{what}.", file=path, line=error.lineno, remedy="Mend the line.") from error
        except (OSError, EOFError, ValueError) as error:
            raise InputError(f"cannot be read: {error}", file=path) from error
        self._append(heads, relations, tails)
        if not len(self.triples):
            raise InputError(
                "has no triples between entities.", file=path, remedy="Triples with literals count only if kept."
            )

    def _append(self, heads: list[str], relations: list[str], tails: list[str]) -> None:
        if heads:
            self.triples.append(*(pa.array(column, pa.string()) for column in (heads, relations, tails)))
        for column in (heads, relations, tails):
            column.clear()

    def _spelled(self, term: object) -> str:
        """An IRI as it is; a blank node, literal or quoted triple as N-Triples writes it. Turtle's nameless nodes, for
        which the parser draws random labels, are numbered instead: ids are the same at every reading."""
        if isinstance(term, pyoxigraph.NamedNode):
            return term.value
        spelled = str(term)
        if self._numbers_nodes and isinstance(term, pyoxigraph.BlankNode) and _DRAWN_LABEL.fullmatch(spelled):
            return self._anonymous.setdefault(spelled, f"_:{self._stem}.{len(self._anonymous) + 1}")
        return spelled


def _keep_best(texts: dict[str, _Text], subject: str, literal: pyoxigraph.Literal) -> None:
    language = (literal.language or "").lower()
    welcome = 0 if language.split("-")[0] == "en" else 1 if not language else 2
    if subject not in texts or welcome < texts[subject][0]:
        texts[subject] = (welcome, literal.value)
