"""Evidence for and against an answer, in words that an expert of the field can check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from transher.answering.answers import Answering, Question
from transher.answering.influence import influences
from transher.answering.paths import PathRule, path_rules
from transher.answering.predicted import Predicted
from transher.answering.words import Because, in_words
from transher.graph.graph import SIDES, Graph, Side
from transher.kernels.rules import BODY, NONE, Column
from transher.models.embeddings import embeddings_of
from transher.rules import Rules, words

RuleKind = Literal["symmetric", "inverse", "same pair", "composed", "constant"]
_GROUNDINGS = 100  # of a rule that are counted, at most
_EXAMPLES = 3


@dataclass(frozen=True)
class Fact:
    """A triple in labels and in identifiers."""

    head: str
    relation: str
    tail: str
    identifiers: tuple[str, str, str]


@dataclass(frozen=True)
class RuleEvidence:
    """Known facts that speak for the asked one, and how often facts of these kinds go with the relation elsewhere: the
    rule holds for `support` of `pairs`, and its confidence is support / (pairs + 5)."""

    kind: RuleKind
    rule: str
    support: int
    pairs: int
    confidence: float
    sampled: bool
    paths: int  # of this kind for this head and tail
    examples: list[list[Fact]]


@dataclass(frozen=True)
class SimilarEvidence:
    """An entity that is near the head (or tail) in the model's eyes, with a known fact like the asked one."""

    side: Side  # the end in whose place it stands
    similarity: float  # cosine
    fact: Fact


@dataclass(frozen=True)
class Influence:
    """A known fact and how much it moved the score: see `transher.answering.influence`."""

    fact: Fact
    size: float
    share: float  # of the sizes of all facts looked at


@dataclass(frozen=True)
class Alternative:
    """Another answer to the same question."""

    side: Side
    fact: Fact
    score: float
    probability: float | None
    known: bool


@dataclass(frozen=True, repr=False)
class Evidence:
    """All that `explain` found. `ranks` counts only answers that the graph does not have already."""

    fact: Fact
    score: float
    probability: float | None
    known: bool  # in the graph already; then the evidence is what remains without it
    ranks: dict[Side, int]
    because: list[Because] = field(default_factory=list)  # what made the probability what it is, the strongest first
    rules: list[RuleEvidence] = field(default_factory=list)
    similar: list[SimilarEvidence] = field(default_factory=list)
    influences: list[Influence] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list)

    def __repr__(self) -> str:
        worth = f"score {self.score:.2f}" if self.probability is None else f"probability {self.probability:.3g}"
        return (
            f"<Evidence for {fact_in_words(self.fact)}: {worth}{', known' if self.known else ''}\n {self.headline()}>"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def headline(self) -> str:
        """The strongest reason, in one sentence."""
        return _headline(self.rules, self.similar)


def _headline(rules: Sequence[RuleEvidence], similar: Sequence[SimilarEvidence]) -> str:
    if rules:
        return reason_in_words(rules[0])
    if similar:
        return f"similar to {fact_in_words(similar[0].fact)} ({similar[0].similarity:.2f})"
    return "no rule and no similar fact supports it"


def fact_in_words(fact: Fact) -> str:
    return f"{fact.head} —{fact.relation}→ {fact.tail}"


def steps_in_words(steps: list[Fact]) -> str:
    return ", ".join(fact_in_words(step) for step in steps)


def rule_in_words(rule: RuleEvidence) -> str:
    return f"{rule.rule} holds for {rule.support:,} of {rule.pairs:,}{' sampled' if rule.sampled else ''} pairs"


def reason_in_words(rule: RuleEvidence) -> str:
    return f"{steps_in_words(rule.examples[0])}; {rule_in_words(rule)}"


def explain(
    answering: Answering, asked: tuple[int, int, int], *, limit: int = 5, missing_share: float | None = None
) -> Evidence:
    """Evidence for and against a triple, by ids; at most `limit` entries of each kind and side."""
    graph = answering.graph
    itself = answering.judged(np.array([asked]), missing_share)
    return Evidence(
        fact=_fact(graph, *asked),
        score=float(itself.scores[0]),
        probability=_probability(itself, 0),
        known=bool(itself.known[0]),
        ranks={side: answering.rank(asked, side) for side in SIDES},
        because=_because(answering, asked)[:limit],
        rules=_rules(answering, asked, limit),
        similar=_similar(answering, asked, limit),
        influences=_influences(answering, asked, limit),
        alternatives=_alternatives(answering, asked, limit, missing_share),
    )


def reasons(answering: Answering, facts: Predicted, progress: Callable[[int, int], None] | None = None) -> list[str]:
    """The strongest evidence for each fact, in a sentence."""
    mined = answering.rules
    strongest = None if mined is None else mined.reasons(facts.triples, 1)
    found = []
    for number, (head, relation, tail) in enumerate(facts.triples.tolist(), 1):
        asked = head, relation, tail
        if mined is not None and strongest is not None and strongest.numbers[number - 1, 0] != NONE:
            best, sure = strongest.numbers[number - 1, 0], strongest.confidences[number - 1, 0]
            found.append(reason_in_words(_mined(answering.graph, mined, int(best), float(sure), asked)))
        else:
            found.append(
                _headline([] if mined is not None else _rules(answering, asked, 1), _similar(answering, asked, 1))
            )
        if progress is not None:
            progress(number, len(facts))
    return found


def _because(answering: Answering, asked: tuple[int, int, int]) -> list[Because]:
    if answering.judge is None:
        return []
    return in_words(answering.graph, asked, answering.judge.reasons(np.array(asked)))


def _rules(answering: Answering, asked: tuple[int, int, int], limit: int) -> list[RuleEvidence]:
    """The strongest rules that predict the triple: those of the run, or else those counted for this triple."""
    graph, mined = answering.graph, answering.rules
    if mined is None:
        found = [rule for rule in path_rules(graph.known, *asked) if rule.support][:limit]
        return [_counted(graph, rule, asked[1]) for rule in found]
    reasons = mined.reasons(np.array([asked]), limit)
    numbers = reasons.numbers[0, : int(reasons.counts[0])].tolist()
    return [
        _mined(graph, mined, number, float(sure), asked)
        for number, sure in zip(numbers, reasons.confidences[0].tolist(), strict=False)
    ]


def _mined(graph: Graph, rules: Rules, number: int, confidence: float, asked: tuple[int, int, int]) -> RuleEvidence:
    row = rules.rows[number].tolist()
    examples = words.groundings(rules.trained, row, asked, _GROUNDINGS)
    sampled = bool(row[Column.SAMPLED])
    itself = not sampled and bool(rules.trained.has(np.array([asked]))[0])  # is no support for itself: see `Rules`
    return RuleEvidence(
        kind=_kind([end for end in row[BODY] if end != NONE], asked[1], len(graph.relations), row[Column.ANSWER]),
        rule=words.rule_in_words(graph, row),
        support=row[Column.SUPPORT] - itself,
        pairs=row[Column.PAIRS],
        confidence=confidence,
        sampled=sampled,
        paths=len(examples),
        examples=[[_fact(graph, *triple) for triple in example] for example in examples[:_EXAMPLES]],
    )


def _counted(graph: Graph, found: PathRule, relation: int) -> RuleEvidence:
    count = len(graph.relations)
    ends = found.examples[0].ends
    body = [*ends, NONE, NONE][:3]
    examples = [
        [
            _fact(graph, one, end, other) if end < count else _fact(graph, other, end - count, one)
            for end, one, other in zip(path.ends, path.entities, path.entities[1:], strict=False)
        ]
        for path in found.examples
    ]
    return RuleEvidence(
        kind=_kind(ends, relation, count, NONE),
        rule=words.rule_in_words(graph, [relation, NONE, *body, NONE]),
        support=found.support,
        pairs=found.pairs,
        confidence=found.confidence,
        sampled=found.sampled,
        paths=found.paths,
        examples=examples,
    )


def _kind(ends: Sequence[int], relation: int, relation_count: int, answer: int) -> RuleKind:
    if answer != NONE:
        return "constant"
    if len(ends) > 1:
        return "composed"
    if ends[0] < relation_count:
        return "same pair"
    return "symmetric" if ends[0] - relation_count == relation else "inverse"


@torch.no_grad()
def _similar(answering: Answering, asked: tuple[int, int, int], limit: int) -> list[SimilarEvidence]:
    """Entities with this relation to this answer, the nearest first by the cosine between their rows and the head's;
    then other answers of the same head that are near the tail."""
    embeddings, graph = embeddings_of(answering.scorer), answering.graph
    found: list[SimilarEvidence] = []
    if embeddings is None:
        return found
    for side in SIDES:
        entity, others = _others(graph, asked, side)
        rows = embeddings.rows(torch.from_numpy(others.astype(np.int64)))
        likeness = torch.cosine_similarity(rows, embeddings.rows(torch.tensor([entity])), dim=1)
        for place in torch.argsort(-likeness)[:limit].tolist():
            fact = _fact(graph, *_with(asked, side, int(others[place])))
            found.append(SimilarEvidence(side, float(likeness[place]), fact))
    return found


def _influences(answering: Answering, asked: tuple[int, int, int], limit: int) -> list[Influence]:
    embeddings = embeddings_of(answering.scorer)
    if embeddings is None:
        return []
    triples, sizes = influences(embeddings, answering.graph.trained, asked)
    total = max(float(sizes.abs().sum()), 1e-30)
    order = torch.argsort(-sizes.abs(), stable=True)[:limit].tolist()
    return [
        Influence(_fact(answering.graph, *triples[i].tolist()), float(sizes[i]), float(sizes[i].abs()) / total)
        for i in order
    ]


def _alternatives(
    answering: Answering, asked: tuple[int, int, int], limit: int, missing_share: float | None
) -> list[Alternative]:
    """The best other answers of either side."""
    head, relation, tail = asked
    found: list[Alternative] = []
    for side in SIDES:
        given = Question(head, relation, None) if side == "tail" else Question(None, relation, tail)
        (answers,) = answering.answer([given._replace(top=limit + 1, missing_share=missing_share)])
        others = answers.take((answers.triples != np.array(asked)).any(1)).take(slice(limit))
        found += [
            Alternative(side, _fact(answering.graph, *triple), score, _probability(others, place), known)
            for place, (triple, score, known) in enumerate(
                zip(others.triples.tolist(), others.scores.tolist(), others.known.tolist(), strict=True)
            )
        ]
    return found


def _others(graph: Graph, asked: tuple[int, int, int], side: Side) -> tuple[int, NDArray[np.int32]]:
    """The entity on a side of a triple, and the other known answers for that side."""
    head, relation, tail = asked
    anchor, entity = (head, tail) if side == "tail" else (tail, head)
    _, known = graph.known.answers(side).of(np.array([anchor]), np.array([relation]))
    return entity, known[known != entity]


def _with(asked: tuple[int, int, int], side: Side, entity: int) -> tuple[int, int, int]:
    """The triple with another entity on a side."""
    head, relation, tail = asked
    return (head, relation, entity) if side == "tail" else (entity, relation, tail)


def _probability(predicted: Predicted, place: int) -> float | None:
    return None if predicted.probabilities is None else float(predicted.probabilities[place])


def _fact(graph: Graph, head: int, relation: int, tail: int) -> Fact:
    one, other = graph.entities.labels([head, tail])
    ends = graph.entities.identifiers
    identifiers = ends[head].as_py(), graph.relations.identifiers[relation].as_py(), ends[tail].as_py()
    return Fact(one, graph.relations.label(relation), other, identifiers)
