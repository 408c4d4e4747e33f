"""One run with everything that can be asked of it over HTTP, in names and JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
import torch

from transher.answering.answers import Question
from transher.answering.evidence import explain
from transher.answering.missing import Search, Wanted
from transher.answering.predicted import Predicted
from transher.answering.reading import Earlier
from transher.answering.writing import as_tsv, table_as_tsv
from transher.deadline import check_deadline, made_once
from transher.errors import TransherError, UsageError
from transher.graph.vocabulary import Vocabulary
from transher.models.embeddings import embeddings_of
from transher.runs.run import Run
from transher.runs.verdicts import marked, verdict_frame
from transher.serving import schemas as s
from transher.serving.entity_map import Colour, EntityMap
from transher.serving.naming import Naming, finite
from transher.serving.patterns import FoundPattern, relation_patterns
from transher.training.recipe import Recipe

CELLS = 64  # of a translation's strip
_PATTERNS = 40
_EXPECTED = 200  # facts whose probabilities are added up
_PAIRS = 4_000_000  # that a search for missing facts looks at: about a second on two cores at k = 1,000


class Explorer(Naming):
    """Holds the run's tables once; every index is made at the start, what is slow when it is first asked for."""

    def __init__(self, key: str, run: Run) -> None:
        super().__init__(key, run)
        self.answering = run.answering
        self.answering.prepare()
        self._quality = run.kept_metrics()
        self._missing: dict[tuple[object, ...], tuple[Predicted, bool]] = {}
        self._lock, self._marking = Lock(), Lock()

    # --- views

    @cached_property
    def view(self) -> s.RunView:
        prominent = np.argsort(-self.known.degrees, kind="stable")[:8]
        recipe = self.run.recipe
        return s.RunView(
            key=self.key,
            graph=self.graph.name,
            model=self.run.title,
            dimension=recipe.model.k if isinstance(recipe, Recipe) else 0,
            entities=len(self.graph.entities),
            relations=len(self.graph.relations),
            triples=len(self.known),
            finished=self.run.manifest is not None,
            calibrated=self.answering.judge is not None,
            quality=_brief(self._quality["overall"]) if self._quality else None,
            prominent=self.entities(prominent),
            questions=self._questions(),
        )

    def entity(self, text: str, each: int) -> s.EntityView:
        """Its known facts, at most `each` of a relation, better connected entities first."""
        id = self.entity_id(text)
        groups = []
        _, ends, targets = self.known.steps(np.array([id]))
        for end in np.unique(ends).tolist():
            others = targets[ends == end]
            order = np.argsort(-self.known.degrees[others], kind="stable")[:each]
            groups.append(
                s.FactsOfRelation(
                    relation=self.relations([end % self.known.relation_count])[0],
                    side="tail" if end < self.known.relation_count else "head",
                    count=len(others),
                    others=self.entities(others[order]),
                )
            )
        return s.EntityView(entity=self.entities([id])[0], facts=groups)

    def predicted(self, text: str, top: int) -> s.Answers:
        """The most probable facts about an entity that the graph lacks, and how many of all such are expected."""
        start, relations = time.perf_counter(), tuple(range(len(self.graph.relations)))
        wanted = Wanted(relations, max(top, _EXPECTED), entity=self.entity_id(text), pairs=_PAIRS)
        search = Search(self.answering, wanted, self._wrong())
        found = search.facts()
        answers = self.answers("tail", found.take(slice(top)), start, search.partial)
        if found.probabilities is not None:
            answers.expected = round(float(found.probabilities.sum()), 3)
        return answers

    def similar(self, text: str, top: int) -> list[s.Similar]:
        found = self.answering.similar(self.entity_id(text), top)
        entities = self.entities([id for id, _ in found])
        return [s.Similar(entity=entity, similarity=value) for entity, (_, value) in zip(entities, found, strict=True)]

    def all_relations(self) -> list[s.Relation]:
        return self.relations(np.arange(len(self.graph.relations)))

    def relation(self, text: str) -> s.RelationView:
        id = self.relation_id(text)
        pairs = np.stack(self.known.edges(id), axis=1)
        strip, width = self._strip(id)
        quality = (self._quality or {}).get("by_relation", {}).get(self.graph.relations.identifiers[id].as_py())
        best = pairs[np.argsort(-self.known.degrees[pairs].sum(1), kind="stable")[:8]]
        return s.RelationView(
            relation=self.relations([id])[0],
            heads=len(np.unique(pairs[:, 0])),
            tails=len(np.unique(pairs[:, 1])),
            patterns=[self._pattern(found) for found in self._patterns().get(id, [])[:_PATTERNS]],
            strip=strip,
            strip_width=width,
            quality=_brief(quality) if quality else None,
            examples=self.listed(self.answering.judged(np.insert(best, 1, id, axis=1))),
        )

    def missing(self, text: str, top: int) -> s.Answers:
        """The most probable facts of a relation that the graph lacks."""
        start = time.perf_counter()
        found, partial = self._missing_facts(self.relation_id(text), top)
        return self.answers("tail", found, start, partial)

    def missing_table(self, text: str, top: int) -> str:
        """The same, tab-separated."""
        return as_tsv(self.graph, self._missing_facts(self.relation_id(text), top)[0])

    def _missing_facts(self, relation: int, top: int) -> tuple[Predicted, bool]:
        """And whether only a part of the pairs was looked at. The last few hundred are remembered."""
        wrong = self._wrong()
        asked = relation, top, self.said_at
        if asked not in self._missing:
            search = Search(self.answering, Wanted((relation,), top, pairs=_PAIRS), wrong)
            if len(self._missing) > 300:
                self._missing.clear()
            self._missing[asked] = search.facts(), search.partial
        return self._missing[asked]

    # --- verdicts

    def verdicts(self) -> list[s.VerdictView]:
        """What was said of facts, the latest last."""
        frame = verdict_frame(self.graph, self.said)
        return [s.VerdictView.model_validate(row) for row in frame.to_dict("records")]

    def verdict_table(self) -> str:
        """The same, tab-separated."""
        return table_as_tsv(verdict_frame(self.graph, self.said))

    def mark(self, body: s.Marking) -> list[s.VerdictView]:
        """Keep what is said of a fact, in the run's folder."""
        with self._marking:
            self.run.mark(body.head, body.relation, body.tail, body.verdict)
        return self.verdicts()

    def _wrong(self) -> Earlier | None:
        """What is not shown again."""
        wrong = marked(self.graph, self.said, "wrong")
        return Earlier(None, self.graph, wrong) if len(wrong) else None

    # --- questions

    def ask(self, query: s.Query) -> s.Answers:
        """The best answers for what is not given; the triple's own score where nothing is left open."""
        answer = self.ask_all([query])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask_all(self, queries: Sequence[s.Query]) -> list[s.Answers | Exception]:
        """Many at once. What cannot be answered has an exception."""
        start = time.perf_counter()
        answers: list[s.Answers | Exception] = [TransherError("not answered")] * len(queries)
        questions: dict[int, Question] = {}
        for place, query in enumerate(queries):
            check_deadline()
            try:
                questions[place] = self._question(query)
            except TransherError as error:
                answers[place] = error
        found = self.answering.answer(list(questions.values()))
        for (place, question), predicted in zip(questions.items(), found, strict=True):
            asked = "head" if question.head is None else "relation" if question.relation is None else "tail"
            answers[place] = self.answers(asked, predicted, start)
        return answers

    def _question(self, query: s.Query) -> Question:
        if [query.head, query.relation, query.tail].count(None) > 1:
            raise UsageError("Give two of head, relation and tail: the third is what is asked for.")
        return Question(
            None if query.head is None else self.entity_id(query.head),
            None if query.relation is None else self.relation_id(query.relation),
            None if query.tail is None else self.entity_id(query.tail),
            query.top,
            query.known,
            query.missing_share,
        )

    def explain(self, head: str, relation: str, tail: str, missing_share: float | None = None) -> dict[str, Any]:
        ids = self.entity_id(head), self.relation_id(relation), self.entity_id(tail)
        evidence = explain(self.answering, ids, missing_share=missing_share)
        return cast("dict[str, Any]", _plain(evidence.to_dict() | {"headline": evidence.headline()}))

    # --- the map

    @cached_property
    def _map(self) -> EntityMap:
        return EntityMap(self.run)

    def map(self, colour: Colour) -> s.MapView:
        with made_once(self._lock):
            drawn = self._map
            colouring = drawn.colouring(colour)
        words: Vocabulary = self.graph.entities
        return s.MapView.model_construct(
            x=np.round(drawn.points[:, 0], 5).tolist(),
            y=np.round(drawn.points[:, 1], 5).tolist(),
            colour=np.round(colouring.values, 3).tolist(),
            groups=colouring.groups,
            degree=self.known.degrees[drawn.ids].tolist(),
            identifiers=words.identifiers.take(drawn.ids).to_pylist(),
            names=words.labels(drawn.ids),
            method=drawn.method,
            explained=drawn.explained,
            sampled=drawn.sampled,
        )

    def place(self, text: str) -> s.Place:
        with made_once(self._lock):
            drawn = self._map
        id = self.entity_id(text)
        x, y = drawn.place(np.array([id]))[0].tolist()
        return s.Place(entity=self.entities([id])[0], x=x, y=y)

    # --- within

    def _questions(self) -> list[s.FactView]:
        """A known fact of each of the commonest relations, for the first page to ask about."""
        counts, degrees = self.known.relation_counts, self.known.degrees
        common = np.argsort(-counts, kind="stable")[:6]
        triples: list[list[int]] = []
        for relation in common[counts[common] > 0].tolist():
            pairs = np.stack(self.known.edges(relation), axis=1)
            fresh = pairs[~np.isin(pairs[:, 0], [triple[0] for triple in triples])]  # a head for each question
            pairs = fresh if len(fresh) else pairs
            head, tail = pairs[int(np.argmax(degrees[pairs[:, 0]]))].tolist()
            triples.append([head, relation, tail])
        return self.listed(self.answering.judged(np.array(triples, dtype=np.int64).reshape(-1, 3)))

    def _strip(self, relation: int) -> tuple[list[float] | None, int]:
        embeddings = embeddings_of(self.run.scorer)
        if embeddings is None:
            return None, 0
        translation = embeddings.model.translation(embeddings.relation_weights[relation : relation + 1])
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
