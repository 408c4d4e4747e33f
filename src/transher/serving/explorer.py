"""One run with everything that can be asked of it over HTTP, in names and JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
import torch

from transher.answering.evidence import explain_ids
from transher.deadline import check_deadline, made_once
from transher.errors import TransherError
from transher.graph.graph import Side
from transher.graph.vocabulary import Vocabulary
from transher.runs.run import Run
from transher.serving import asking
from transher.serving import schemas as s
from transher.serving.asking import Predicted
from transher.serving.naming import Naming, UnknownNameError, finite
from transher.serving.patterns import FoundPattern, relation_patterns
from transher.serving.plane import Colour, Plane

CELLS = 64  # of a translation's strip
_PATTERNS = 40


class Explorer(Naming):
    """Holds the run's tables once; every index is made at the start, what is slow when it is first asked for."""

    def __init__(self, key: str, run: Run) -> None:
        super().__init__(key, run)
        self.calibrated = run.calibration is not None  # made here, once, where the run has not stored it
        self._quality = run.kept_metrics()
        self._missing: dict[tuple[int, int], Predicted] = {}
        self._lock, self._evidence_lock = Lock(), Lock()

    # --- views

    @cached_property
    def view(self) -> s.RunView:
        prominent = np.argsort(-self.facts.degree, kind="stable")[:8]
        return s.RunView(
            key=self.key,
            graph=self.graph.name,
            model=self.run.scorer.model.title,
            dimension=self.run.scorer.model.k,
            entities=len(self.graph.entities),
            relations=len(self.graph.relations),
            triples=int(self.facts.count.sum()),
            finished=self.run.manifest is not None,
            calibrated=self.calibrated,
            quality=_brief(self._quality["overall"]) if self._quality else None,
            prominent=self.entities(prominent),
            questions=self._questions(),
        )

    def entity(self, text: str, each: int) -> s.EntityView:
        """Its known facts, at most `each` of a relation, better connected entities first."""
        id = self.entity_id(text)
        groups = []
        for group in self.facts.of(id):
            order = np.argsort(-self.facts.degree[group.others], kind="stable")[:each]
            groups.append(
                s.FactsOfRelation(
                    relation=self.relations([group.relation])[0],
                    side=group.side,
                    count=len(group.others),
                    others=self.entities(group.others[order]),
                )
            )
        return s.EntityView(entity=self.entities([id])[0], facts=groups)

    def predicted(self, text: str, top: int) -> s.Answers:
        start = time.perf_counter()
        found = asking.predicted_facts(self.run, self.facts, self.types, self.entity_id(text), top)
        return self.answers("tail", found, start)

    def similar(self, text: str, top: int) -> list[s.Similar]:
        found = asking.similar(self.run, self.entity_id(text), top)
        entities = self.entities([id for id, _ in found])
        return [s.Similar(entity=entity, similarity=value) for entity, (_, value) in zip(entities, found, strict=True)]

    def all_relations(self) -> list[s.Relation]:
        return self.relations(np.arange(len(self.graph.relations)))

    def relation(self, text: str) -> s.RelationView:
        id = self.relation_id(text)
        pairs = self.facts.pairs(id)
        strip, width = self._strip(id)
        quality = (self._quality or {}).get("by_relation", {}).get(self.graph.relations.identifiers[id].as_py())
        best = pairs[np.argsort(-self.facts.degree[pairs].sum(1), kind="stable")[:8]]
        return s.RelationView(
            relation=self.relations([id])[0],
            heads=len(np.unique(pairs[:, 0])),
            tails=len(np.unique(pairs[:, 1])),
            patterns=[self._pattern(found) for found in self._patterns().get(id, [])[:_PATTERNS]],
            strip=strip,
            strip_width=width,
            quality=_brief(quality) if quality else None,
            examples=self.listed(asking.score(self.run, np.insert(best, 1, id, axis=1))),
        )

    def missing(self, text: str, top: int) -> s.Answers:
        """A relation's most confident missing facts; the last few hundred are remembered."""
        start, id = time.perf_counter(), self.relation_id(text)
        found = self._missing.get((id, top))
        if found is None:
            found = asking.missing_facts(self.run, self.facts, self.types, id, top)
            if len(self._missing) > 300:
                self._missing.clear()
            self._missing[id, top] = found
        return self.answers("tail", found, start)

    # --- questions

    def ask(self, query: s.Query) -> s.Answers:
        """The best answers for what is not given; the triple's own score where nothing is left open."""
        answer = self.ask_all([query])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask_all(self, queries: Sequence[s.Query]) -> list[s.Answers | Exception]:
        """Many at once: those for the same side go by the table together. What cannot be answered has an exception."""
        start = time.perf_counter()
        answers: list[s.Answers | Exception] = [TransherError("not answered")] * len(queries)
        groups: dict[tuple[Side, bool], list[tuple[int, int, int]]] = {}
        for place, query in enumerate(queries):
            check_deadline()
            try:
                match query.head, query.relation, query.tail:
                    case (str(anchor), str(relation), None):
                        key: tuple[Side, bool] = ("tail", query.known == "hide")
                    case (None, str(relation), str(anchor)):
                        key = ("head", query.known == "hide")
                    case _:
                        answers[place] = self._ask_other(query, start)
                        continue
                row = (place, self.entity_id(anchor), self.relation_id(relation))
                groups.setdefault(key, []).append(row)
            except UnknownNameError as error:
                answers[place] = error
        for (side, hide), rows in groups.items():
            places, anchors, relations = (np.array(column) for column in zip(*rows, strict=True))
            top = max(queries[place].top for place in places)
            base_rates = [queries[place].base_rate for place in places]
            found = asking.ask(self.run, self.facts, anchors, relations, side, top, hide, base_rates)
            for place, predicted in zip(places.tolist(), found, strict=True):
                answers[place] = self.answers(side, predicted.only(slice(queries[place].top)), start)
        return answers

    def _ask_other(self, query: s.Query, start: float) -> s.Answers:
        match query.head, query.relation, query.tail:
            case (str(head), None, str(tail)):
                return self._ask_relations(self.entity_id(head), self.entity_id(tail), query, start)
            case (str(head), str(relation), str(tail)):
                triple = [self.entity_id(head), self.relation_id(relation), self.entity_id(tail)]
                return self.answers("tail", asking.score(self.run, np.array([triple]), query.base_rate), start)
        raise UnknownNameError("Give two of head, relation and tail: the third is what is asked for.", [])

    def explain(self, head: str, relation: str, tail: str, base_rate: float | None = None) -> dict[str, Any]:
        ids = self.entity_id(head), self.relation_id(relation), self.entity_id(tail)
        with made_once(self._evidence_lock):  # the index of paths, by whoever asks first
            neighbourhood = self.run.neighbourhood
        assert neighbourhood is not None
        evidence = explain_ids(self.run, ids, base_rate=base_rate)
        return cast("dict[str, Any]", _plain(evidence.to_dict() | {"headline": evidence.headline()}))

    # --- the map

    @cached_property
    def plane(self) -> Plane:
        return Plane(self.run, self.facts)

    def map(self, colour: Colour) -> s.MapView:
        with made_once(self._lock):
            plane = self.plane
            colouring = plane.colouring(colour)
        words: Vocabulary = self.graph.entities
        return s.MapView.model_construct(
            x=np.round(plane.points[:, 0], 5).tolist(),
            y=np.round(plane.points[:, 1], 5).tolist(),
            colour=np.round(colouring.values, 3).tolist(),
            groups=colouring.groups,
            degree=self.facts.degree[plane.ids].tolist(),
            identifiers=words.identifiers.take(plane.ids).to_pylist(),
            names=words.labels(plane.ids),
            explained=plane.explained,
            sampled=plane.sampled,
        )

    def place(self, text: str) -> s.Place:
        with made_once(self._lock):
            plane = self.plane
        id = self.entity_id(text)
        x, y = plane.place(np.array([id]))[0].tolist()
        return s.Place(entity=self.entities([id])[0], x=x, y=y)

    # --- within

    def _ask_relations(self, head: int, tail: int, query: s.Query, start: float) -> s.Answers:
        ids = np.arange(len(self.graph.relations))
        if query.known == "hide":
            ids = ids[[not self.facts.holds(head, int(id), tail) for id in ids]]
        triples = np.stack([np.full(len(ids), head), ids, np.full(len(ids), tail)], 1)
        return self.answers("relation", asking.score(self.run, triples, query.base_rate).best(query.top), start)

    def _questions(self) -> list[s.Fact]:
        """A known fact of each of the commonest relations, for the first page to ask about."""
        common = np.argsort(-self.facts.count, kind="stable")[:6]
        triples: list[list[int]] = []
        for relation in common[self.facts.count[common] > 0].tolist():
            pairs = self.facts.pairs(relation)
            fresh = pairs[~np.isin(pairs[:, 0], [triple[0] for triple in triples])]  # a head for each question
            pairs = fresh if len(fresh) else pairs
            head, tail = pairs[int(np.argmax(self.facts.degree[pairs[:, 0]]))].tolist()
            triples.append([head, relation, tail])
        return self.listed(asking.score(self.run, np.array(triples, dtype=np.int64).reshape(-1, 3)))

    def _strip(self, relation: int) -> tuple[list[float] | None, int]:
        rows = self.run.scorer.relation_weights[relation : relation + 1]
        translation = self.run.scorer.model.translation(rows)
        if translation is None:
            return None, 0
        values = translation[0].detach().float()
        pooled = torch.nn.functional.adaptive_avg_pool1d(values[None, None], min(CELLS, len(values)))
        return [round(value, 6) for value in pooled.flatten().tolist()], len(values)

    def _patterns(self) -> dict[int, list[FoundPattern]]:
        with made_once(self._lock):
            return self._all_patterns

    @cached_property
    def _all_patterns(self) -> dict[int, list[FoundPattern]]:
        return relation_patterns(self.graph)

    def _pattern(self, found: FoundPattern) -> s.Pattern:
        kind: Any = found.kind
        return s.Pattern(
            kind=kind,
            premises=self.relations(list(found.premises)),
            conclusion=self.relations([found.conclusion])[0],
            support=found.support,
            confidence=found.confidence,
        )


def _brief(metrics: dict[str, Any]) -> dict[str, Any]:
    names = ("count", "mrr", "mr", "hits@1", "hits@3", "hits@10")
    return {name: metrics[name] for name in names if name in metrics}


def _plain(value: Any) -> Any:
    """NumPy's numbers as JSON has them, and none that JSON has not."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item"):
        value = value.item()
    return finite(value) if isinstance(value, float) else value
