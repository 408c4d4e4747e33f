"""From what people type to ids, and from ids to what they read."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transher.answering.predicted import Predicted
from transher.graph.statistics import RELATION_TYPES, relation_types
from transher.runs.run import Run
from transher.runs.verdicts import Identifiers, Said, read_verdicts, state_of_file
from transher.serving import schemas as s


class Naming:
    """A run's names, with the facts that tell how well connected each is, and what people said of facts."""

    def __init__(self, key: str, run: Run) -> None:
        self.key, self.run, self.graph = key, run, run.graph
        self.known = run.graph.known
        self._kept = state_of_file(run.folder), read_verdicts(run.folder)
        self.types: NDArray[np.int8] = relation_types(run.graph)
        for words in (run.graph.entities, run.graph.relations):
            words.lookup.prepare()

    def search(self, text: str, limit: int) -> s.Found:
        return s.Found(
            entities=self.entities(self.graph.entities.lookup.search(text, limit, self.known.degrees)),
            relations=self.relations(self.graph.relations.lookup.search(text, limit, self.known.relation_counts)),
        )

    @property
    def said(self) -> dict[Identifiers, Said]:
        """What people said of facts, as the file has it now: other processes write to it too."""
        return self._current()[1]

    @property
    def said_at(self) -> tuple[int, int]:
        """Changes with what people said."""
        return self._current()[0]

    def _current(self) -> tuple[tuple[int, int], dict[Identifiers, Said]]:
        """The file's state and what it says, kept as one: threads that read it at once must not mix two states."""
        kept, now = self._kept, state_of_file(self.run.folder)
        if now != kept[0]:
            self._kept = kept = now, read_verdicts(self.run.folder)
        return kept

    def entity_id(self, text: str) -> int:
        return self.graph.entities.find(text)

    def relation_id(self, text: str) -> int:
        return self.graph.relations.find(text)

    def entities(self, ids: Any) -> list[s.Entity]:
        ids = np.asarray(ids, dtype=np.int64)
        words = self.graph.entities
        described = words.descriptions.take(ids).to_pylist() if words.descriptions is not None else [None] * len(ids)
        return [
            s.Entity.model_construct(identifier=identifier, name=name, description=description, degree=degree)
            for identifier, name, description, degree in zip(
                words.identifiers.take(ids).to_pylist(), words.labels(ids), described,
                self.known.degrees[ids].tolist(), strict=True,
            )
        ]  # fmt: skip

    def relations(self, ids: Any) -> list[s.Relation]:
        ids = np.asarray(ids, dtype=np.int64)
        words = self.graph.relations
        return [
            s.Relation.model_construct(identifier=identifier, name=name, type=RELATION_TYPES[kind], triples=triples)
            for identifier, name, kind, triples in zip(
                words.identifiers.take(ids).to_pylist(), words.labels(ids),
                self.types[ids].tolist(), self.known.relation_counts[ids].tolist(), strict=True,
            )
        ]  # fmt: skip

    def answers(self, asked: Any, found: Predicted, start: float, partial: bool = False) -> s.Answers:
        elapsed = 1000 * (time.perf_counter() - start)
        return s.Answers.model_construct(
            run=self.key, asked=asked, answers=self.listed(found), milliseconds=round(elapsed, 3), partial=partial
        )

    def listed(self, found: Predicted) -> list[s.FactView]:
        heads, relations, tails = found.triples.T
        verdicts = {triple: one.verdict for triple, one in self.said.items()}
        chances = [None] * len(found) if found.probabilities is None else found.probabilities.tolist()
        return [
            s.FactView.model_construct(
                head=head, relation=relation, tail=tail, score=finite(score), probability=finite(chance),
                known=is_known, verdict=verdicts.get((head.identifier, relation.identifier, tail.identifier)),
            )
            for head, relation, tail, score, chance, is_known in zip(
                self.entities(heads), self.relations(relations), self.entities(tails),
                found.scores.tolist(), chances, found.known.tolist(), strict=True,
            )
        ]  # fmt: skip


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
