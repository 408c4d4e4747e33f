"""One run with everything that can be asked of it over HTTP, in names and JSON."""

from __future__ import annotations

import math
import time
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from transher.errors import TransherError
from transher.graph.statistics import RELATION_TYPES, relation_types
from transher.graph.vocabulary import Vocabulary
from transher.prediction.evidence import explain_ids
from transher.run import Run
from transher.serving import asking
from transher.serving import schemas as s
from transher.serving.asking import Predicted
from transher.serving.facts import Facts
from transher.serving.names import NameIndex
from transher.serving.patterns import FoundPattern, relation_patterns
from transher.serving.plane import Colour, Plane

CELLS = 64  # of a translation's strip
_PATTERNS = 40


class UnknownNameError(TransherError):
    """A request names what the graph does not have, or what it has several of."""

    def __init__(self, reason: str, suggestions: list[str]) -> None:
        super().__init__(reason)
        self.suggestions = suggestions


class Explorer:
    """Holds the run's tables once; every index is made at the start, what is slow when it is first asked for."""

    def __init__(self, key: str, run: Run) -> None:
        self.key, self.run, self.graph = key, run, run.graph
        self.facts = Facts(run.graph)
        self.types: NDArray[np.int8] = relation_types(run.graph)
        self.entity_names = NameIndex(run.graph.entities, self.facts.degree)
        self.relation_names = NameIndex(run.graph.relations, self.facts.count)
        self.calibrated = run.calibration is not None  # made here, once, where the run has not stored it
        self._quality = run.saved_evaluation()
        self._missing: dict[tuple[int, int], Predicted] = {}
        self._lock, self._evidence_lock = Lock(), Lock()

    # --- names

    def search(self, text: str, limit: int) -> s.Found:
        return s.Found(
            entities=self.entities(self.entity_names.search(text, limit)),
            relations=self.relations(self.relation_names.search(text, limit)),
        )

    def entity_id(self, text: str) -> int:
        return _find(self.entity_names, text)

    def relation_id(self, text: str) -> int:
        return _find(self.relation_names, text)

    def entities(self, ids: Any) -> list[s.Entity]:
        ids = np.asarray(ids, dtype=np.int64)
        words = self.graph.entities
        described = words.descriptions.take(ids).to_pylist() if words.descriptions is not None else [None] * len(ids)
        return [
            s.Entity.model_construct(identifier=identifier, name=name, description=description, degree=degree)
            for identifier, name, description, degree in zip(
                words.identifiers.take(ids).to_pylist(), words.labels(ids), described,
                self.facts.degree[ids].tolist(), strict=True,
            )
        ]  # fmt: skip

    def relations(self, ids: Any) -> list[s.Relation]:
        ids = np.asarray(ids, dtype=np.int64)
        words = self.graph.relations
        return [
            s.Relation.model_construct(identifier=identifier, name=name, type=RELATION_TYPES[kind], triples=triples)
            for identifier, name, kind, triples in zip(
                words.identifiers.take(ids).to_pylist(), words.labels(ids),
                self.types[ids].tolist(), self.facts.count[ids].tolist(), strict=True,
            )
        ]  # fmt: skip

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
        return self._answers("tail", found, start)

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
            examples=self._listed(asking.score(self.run, np.insert(best, 1, id, axis=1))),
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
        return self._answers("tail", found, start)

    # --- questions

    def ask(self, query: s.Query) -> s.Answers:
        """The best answers for what is not given; the triple's own score where nothing is left open."""
        start = time.perf_counter()
        hide = query.known == "hide"
        match query.head, query.relation, query.tail:
            case (str(head), str(relation), None):
                return self._ask_entities(head, relation, "tail", query.top, hide, start)
            case (None, str(relation), str(tail)):
                return self._ask_entities(tail, relation, "head", query.top, hide, start)
            case (str(head), None, str(tail)):
                return self._ask_relations(self.entity_id(head), self.entity_id(tail), query.top, hide, start)
            case (str(head), str(relation), str(tail)):
                triple = [self.entity_id(head), self.relation_id(relation), self.entity_id(tail)]
                return self._answers("tail", asking.score(self.run, np.array([triple])), start)
        raise UnknownNameError("Give two of head, relation and tail: the third is what is asked for.", [])

    def explain(self, head: str, relation: str, tail: str) -> dict[str, Any]:
        ids = self.entity_id(head), self.relation_id(relation), self.entity_id(tail)
        with self._evidence_lock:  # the index of paths is made once, by whoever asks first
            neighbourhood = self.run.neighbourhood
        assert neighbourhood is not None
        evidence = explain_ids(self.run, ids)
        return cast("dict[str, Any]", _plain(evidence.to_dict() | {"headline": evidence.headline()}))

    # --- the map

    @cached_property
    def plane(self) -> Plane:
        return Plane(self.run, self.facts)

    def map(self, colour: Colour) -> s.MapView:
        with self._lock:
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
        with self._lock:
            plane = self.plane
        id = self.entity_id(text)
        x, y = plane.place(np.array([id]))[0].tolist()
        return s.Place(entity=self.entities([id])[0], x=x, y=y)

    # --- within

    def _ask_entities(self, anchor: str, relation: str, side: Any, top: int, hide: bool, start: float) -> s.Answers:
        anchors, relations = np.array([self.entity_id(anchor)]), np.array([self.relation_id(relation)])
        found = asking.ask(self.run, self.facts, anchors, relations, side, top, hide)[0]
        return self._answers(side, found, start)

    def _ask_relations(self, head: int, tail: int, top: int, hide: bool, start: float) -> s.Answers:
        ids = np.arange(len(self.graph.relations))
        if hide:
            ids = ids[[not self.facts.holds(head, int(id), tail) for id in ids]]
        triples = np.stack([np.full(len(ids), head), ids, np.full(len(ids), tail)], 1)
        return self._answers("relation", asking.score(self.run, triples).best(top), start)

    def _answers(self, asked: Any, found: Predicted, start: float) -> s.Answers:
        elapsed = 1000 * (time.perf_counter() - start)
        return s.Answers.model_construct(
            run=self.key, asked=asked, answers=self._listed(found), milliseconds=round(elapsed, 3)
        )

    def _listed(self, found: Predicted) -> list[s.Fact]:
        heads, relations, tails = found.triples.T if len(found.triples) else ([], [], [])
        chances = [None] * len(found.scores) if found.probabilities is None else found.probabilities.tolist()
        return [
            s.Fact.model_construct(
                head=head, relation=relation, tail=tail, score=_finite(score), probability=_finite(chance),
                known=self.facts.holds(*triple),
            )
            for head, relation, tail, score, chance, triple in zip(
                self.entities(heads), self.relations(relations), self.entities(tails),
                found.scores.tolist(), chances, found.triples.tolist(), strict=True,
            )
        ]  # fmt: skip

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
        return self._listed(asking.score(self.run, np.array(triples, dtype=np.int64).reshape(-1, 3)))

    def _strip(self, relation: int) -> tuple[list[float] | None, int]:
        rows = self.run.scorer.relation_weights[relation : relation + 1]
        translation = self.run.scorer.model.translation(rows)
        if translation is None:
            return None, 0
        values = translation[0].detach().float()
        pooled = torch.nn.functional.adaptive_avg_pool1d(values[None, None], min(CELLS, len(values)))
        return [round(value, 6) for value in pooled.flatten().tolist()], len(values)

    def _patterns(self) -> dict[int, list[FoundPattern]]:
        with self._lock:
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


def _find(index: NameIndex, text: str) -> int:
    ids = index.find(text)
    if len(ids) == 1:
        return ids[0]
    words = index.vocabulary
    if ids:
        return_names = words.labels(ids[:10])
        raise UnknownNameError(f"{len(ids):,} are called {text!r}: give the identifier.", return_names)
    raise UnknownNameError(f"The graph has no {words.kind} called {text!r}.", words.labels(index.search(text, 3)))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


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
    return _finite(value) if isinstance(value, float) else value
