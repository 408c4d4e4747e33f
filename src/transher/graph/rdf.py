"""Triples, names and descriptions from N-Triples, N-Quads, Turtle, TriG and RDF/XML. Named graphs are read as one."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyoxigraph

from transher.errors import InputError
from transher.graph.content import Content
from transher.graph.encoding import SpelledTriples
from transher.graph.faults import BadRows
from transher.graph.names import Names
from transher.graph.options import ReadingOptions, option
from transher.graph.streams import Source, text_lines

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
_FORMATS = {
    ".nt": pyoxigraph.RdfFormat.N_TRIPLES,
    ".nq": pyoxigraph.RdfFormat.N_QUADS,
    ".ttl": pyoxigraph.RdfFormat.TURTLE,
    ".trig": pyoxigraph.RdfFormat.TRIG,
    ".rdf": pyoxigraph.RdfFormat.RDF_XML,
    ".owl": pyoxigraph.RdfFormat.RDF_XML,
}
_LINE_FORMATS = (".nt", ".nq")  # a statement per line: one that is wrong can be left out
_DRAWN_LABEL = re.compile("_:[a-f][0-9a-f]{19,31}")  # 128 bits in hex, without leading zeros

# A text for people and how welcome its language is: 0 English, 1 none given, 2 another.
_Text = tuple[int, str]


def read_rdf(source: Source, options: ReadingOptions) -> Content:
    """What an RDF file says. Labels become names, comments descriptions; other literals are left out and counted, or
    are entities if they are to be kept."""
    try:
        file = RdfFile(source, options.literals == "keep")
        bad_rows = BadRows()
    except InputError:
        if not options.skip_bad_rows or source.form not in _LINE_FORMATS:
            raise
        bad_rows = BadRows()
        file = RdfFile(source, options.literals == "keep", bad_rows)
    return Content(file.triples, [] if file.names is None else [file.names], file.literals_left_out, bad_rows)


class RdfFile:
    """What one file says: its triples, what it calls things, and how many other literals were left out. With
    `bad_rows`, which is slower, lines that are wrong are noted there."""

    def __init__(self, source: Source, keep_literals: bool, bad_rows: BadRows | None = None) -> None:
        self.triples = SpelledTriples()
        self.literals_left_out = 0
        self._source = source
        self._names: dict[str, _Text] = {}
        self._descriptions: dict[str, _Text] = {}
        self._anonymous: dict[str, str] = {}
        self._numbers_nodes = source.form not in _LINE_FORMATS
        self._read(self._quads() if bad_rows is None else self._good_lines(bad_rows), keep_literals)

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

    def _quads(self) -> Iterator[pyoxigraph.Quad]:
        try:
            with self._source.open() as file:
                yield from pyoxigraph.parse(file, _FORMATS[self._source.form])
        except SyntaxError as error:
            remedy = "Mend the line."
            if self._source.form in _LINE_FORMATS:
                remedy += f" Or leave such lines out: {option('skip_bad_rows')}."
            raise InputError(f"{_message(error)}.", file=self._source.path, line=error.lineno, remedy=remedy) from error
        except (OSError, EOFError, ValueError, MemoryError) as error:
            raise InputError(f"cannot be read: {error}.", file=self._source.path) from error

    def _good_lines(self, bad_rows: BadRows) -> Iterator[pyoxigraph.Quad]:
        """Line by line, past those that are wrong."""

        def on_bad(line: int, what: str) -> None:
            bad_rows.add(f"{self._source.path.name}, line {line}", what)

        for number, line in text_lines(self._source, on_bad):
            try:
                yield from list(pyoxigraph.parse(line, _FORMATS[self._source.form]))
            except (SyntaxError, ValueError) as error:
                on_bad(number, f"{_message(error)}.")

    def _read(self, quads: Iterator[pyoxigraph.Quad], keep_literals: bool) -> None:
        heads: list[str] = []
        relations: list[str] = []
        tails: list[str] = []
        for quad in quads:
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
        self._append(heads, relations, tails)
        if not len(self.triples):
            raise InputError(
                "has no triples between entities.",
                file=self._source.path,
                remedy=f"Triples with literals count only if kept: {option('literals', 'keep')}.",
            )

    def _append(self, heads: list[str], relations: list[str], tails: list[str]) -> None:
        if heads:
            self.triples.append(*(pa.array(column, pa.string()) for column in (heads, relations, tails)))
        for column in (heads, relations, tails):
            column.clear()

    def _spelled(self, term: object) -> str:
        """An IRI as it is; a blank node, literal or quoted triple as N-Triples writes it. Nameless nodes,
        for which the parser draws random labels, are numbered instead: ids are the same at every reading."""
        if isinstance(term, pyoxigraph.NamedNode):
            return term.value
        spelled = str(term)
        if self._numbers_nodes and isinstance(term, pyoxigraph.BlankNode) and _DRAWN_LABEL.fullmatch(spelled):
            return self._anonymous.setdefault(spelled, f"_:{self._source.stem}.{len(self._anonymous) + 1}")
        return spelled


def _message(error: Exception) -> str:
    """What the parser says, without the place: the line is named already."""
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    return re.sub(r"^Parser error at .*?: ", "", said)


def _keep_best(texts: dict[str, _Text], subject: str, literal: pyoxigraph.Literal) -> None:
    language = (literal.language or "").lower()
    welcome = 0 if language.split("-")[0] == "en" else 1 if not language else 2
    if subject not in texts or welcome < texts[subject][0]:
        texts[subject] = (welcome, literal.value)
