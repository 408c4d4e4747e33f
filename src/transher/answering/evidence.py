"""What in the graph speaks for an answer, and what against it, in words that somebody who knows the field can check."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from transher.answering.influence import influences
from transher.answering.paths import Neighbourhood, PathRule
from transher.graph.graph import SIDES, Graph, Side

if TYPE_CHECKING:
    from transher.runs.run import Run

RuleKind = Literal["symmetric", "inverse", "same pair", "composed"]
_ONE_ANSWER = 0.95  # share of anchors with a single answer from which on a second one is held against an answer
_USED_AGAIN = 0.8  # share of answers that occur more than once from which on a new answer is held against itself


@dataclass(frozen=True)
class Fact:
    """A triple in labels and in identifiers."""

    head: str
    relation: str
    tail: str
    identifiers: tuple[str, str, str]


@dataclass(frozen=True)
class RuleEvidence:
    """Known facts that lead from head to tail, and how often facts of these kinds go with the relation elsewhere."""

    kind: RuleKind
    rule: str
    support: int
    pairs: int
    confidence: float
    sampled: bool
    paths: int  # of this kind between head and tail
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


@dataclass(frozen=True)
class Evidence:
    """All that `explain` found. `ranks` counts only answers that the graph does not have already."""

    fact: Fact
    score: float
    probability: float | None
    known: bool  # in the graph already; then the evidence is what remains without it
    ranks: dict[Side, int]
    rules: list[RuleEvidence] = field(default_factory=list)
    similar: list[SimilarEvidence] = field(default_factory=list)
    influences: list[Influence] = field(default_factory=list)
    alternatives: list[Alternative] = field(default_factory=list)
    against: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def headline(self) -> str:
        """The strongest reason, in one sentence."""
        if self.rules:
            best = self.rules[0]
            return f"{steps_in_words(best.examples[0])}; {rule_in_words(best)}"
        if self.similar:
            return f"similar to {fact_in_words(self.similar[0].fact)} ({self.similar[0].similarity:.2f})"
        return "no path of three steps and no similar fact supports it"


def fact_in_words(fact: Fact) -> str:
    return f"{fact.head} —{fact.relation}→ {fact.tail}"


def steps_in_words(steps: list[Fact]) -> str:
    return ", ".join(fact_in_words(step) for step in steps)


def rule_in_words(rule: RuleEvidence) -> str:
    return f"{rule.rule} holds for {rule.support:,} of {rule.pairs:,}{' sampled' if rule.sampled else ''} pairs"


def explain(
    run: Run, head: str, relation: str, tail: str, *, limit: int = 5, base_rate: float | None = None
) -> Evidence:
    """Evidence for and against a triple, given in names or identifiers; at most `limit` entries of each kind
    and side."""
    graph = run.graph
    asked = graph.entities.find(head), graph.relations.find(relation), graph.entities.find(tail)
    return explain_ids(run, asked, limit=limit, base_rate=base_rate)


def explain_ids(run: Run, asked: tuple[int, int, int], *, limit: int = 5, base_rate: float | None = None) -> Evidence:
    """As `explain`, for ids."""
    graph, neighbourhood = run.graph, run.neighbourhood
    head, relation, tail = asked
    score = float(run.scorer.score_triples(torch.tensor([asked]))[0])
    alternatives, ranks = _alternatives(run, asked, limit, base_rate)
    return Evidence(
        fact=_fact(graph, *asked),
        score=score,
        probability=_probability(run, score, relation, "tail", base_rate),
        known=tail in neighbourhood.answers(head, relation),
        ranks=ranks,
        rules=[_rule(graph, rule, relation) for rule in neighbourhood.rules(*asked) if rule.support][:limit],
        similar=_similar(run, asked, limit),
        influences=_influences(run, asked, limit),
        alternatives=alternatives,
        against=_against(graph, neighbourhood, asked),
    )


def _rule(graph: Graph, found: PathRule, relation: int) -> RuleEvidence:
    count = len(graph.relations)
    kinds = found.examples[0].kinds
    labels = graph.relations.labels([kind % count for kind in kinds])
    letters = [*"axy"[: len(kinds)], "b"]
    premises = [
        f"{one} {label} {other}" if kind < count else f"{other} {label} {one}"
        for kind, label, one, other in zip(kinds, labels, letters, letters[1:], strict=False)
    ]
    kind: RuleKind = "composed"
    if len(kinds) == 1:
        kind = "same pair" if kinds[0] < count else "symmetric" if kinds[0] - count == relation else "inverse"
    examples = [
        [
            _fact(graph, one, step, other) if step < count else _fact(graph, other, step - count, one)
            for step, one, other in zip(path.kinds, path.entities, path.entities[1:], strict=False)
        ]
        for path in found.examples
    ]
    return RuleEvidence(
        kind=kind,
        rule=f"{' and '.join(premises)} ⇒ a {graph.relations.label(relation)} b",
        support=found.support,
        pairs=found.pairs,
        confidence=found.confidence,
        sampled=found.sampled,
        paths=found.paths,
        examples=examples,
    )


def _similar(run: Run, asked: tuple[int, int, int], limit: int) -> list[SimilarEvidence]:
    """Entities with this relation to this answer, the nearest first by the cosine between their rows and the head's;
    then other answers of the same head that are near the tail."""
    head, relation, tail = asked
    found = []
    for side, entity, others in (
        ("head", head, run.neighbourhood.answers(tail, relation + len(run.graph.relations))),
        ("tail", tail, run.neighbourhood.answers(head, relation)),
    ):
        others = others[others != entity]
        rows = run.scorer.rows(torch.from_numpy(others))
        likeness = torch.cosine_similarity(rows, run.scorer.rows(torch.tensor([entity])), dim=1)
        for place in torch.argsort(-likeness)[:limit].tolist():
            other = int(others[place])
            fact = (
                _fact(run.graph, other, relation, tail) if side == "head" else _fact(run.graph, head, relation, other)
            )
            found.append(SimilarEvidence(side, float(likeness[place]), fact))  # type: ignore[arg-type]
    return found


def _influences(run: Run, asked: tuple[int, int, int], limit: int) -> list[Influence]:
    triples, sizes = influences(run.scorer, run.graph, asked)
    total = max(float(sizes.abs().sum()), 1e-30)
    order = torch.argsort(-sizes.abs(), stable=True)[:limit].tolist()
    return [
        Influence(_fact(run.graph, *triples[i].tolist()), float(sizes[i]), float(sizes[i].abs()) / total) for i in order
    ]


def _alternatives(
    run: Run, asked: tuple[int, int, int], limit: int, base_rate: float | None
) -> tuple[list[Alternative], dict[Side, int]]:
    """The best other answers of either side, and the rank of the asked one among those that are not known."""
    head, relation, tail = asked
    found: list[Alternative] = []
    ranks: dict[Side, int] = {}
    for side in SIDES:
        anchor, answer = (head, tail) if side == "tail" else (tail, head)
        kind = relation if side == "tail" else relation + len(run.graph.relations)
        known = run.neighbourhood.answers(anchor, kind)
        scores = run.scorer.scores(torch.tensor([anchor]), torch.tensor([relation]), side)[0].numpy()
        better = scores > scores[answer]
        ranks[side] = 1 + int(better.sum()) - int(better[known].sum())
        nearest = np.argpartition(-scores, min(limit, len(scores) - 1))[: limit + 1]
        nearest = nearest[np.argsort(-scores[nearest], kind="stable")]
        for other in nearest[nearest != answer][:limit].tolist():
            triple = (head, relation, other) if side == "tail" else (other, relation, tail)
            probability = _probability(run, float(scores[other]), relation, side, base_rate)
            found.append(
                Alternative(side, _fact(run.graph, *triple), float(scores[other]), probability, other in known)
            )
    return found, ranks


def _against(graph: Graph, neighbourhood: Neighbourhood, asked: tuple[int, int, int]) -> list[str]:
    """What the graph has that makes the answer unlikely, whatever the model says."""
    head, relation, tail = asked
    name = graph.relations.label(relation)
    reasons = []
    for side, anchor, answer, kind in (
        ("tail", head, tail, relation),
        ("head", tail, head, relation + len(graph.relations)),
    ):
        sources, targets = neighbourhood.edges(kind)
        others = neighbourhood.answers(anchor, kind)
        others = others[others != answer]
        if len(others) and len(sources):
            _, counts = np.unique(sources, return_counts=True)
            single = float((counts == 1).mean())
            if single >= _ONE_ANSWER:
                reasons.append(
                    f"{graph.entities.label(anchor)} already has {graph.entities.label(int(others[0]))} as {side} of "
                    f"{name}, and {single:.0%} of the entities with a {side} have only one"
                )
        others_of_kind, uses = np.unique(targets[sources != anchor], return_counts=True)
        if len(uses) and answer not in others_of_kind and float((uses > 1).mean()) > _USED_AGAIN:
            reasons.append(f"{graph.entities.label(answer)} is the {side} of no other {name}")
    return reasons


def _probability(run: Run, score: float, relation: int, side: Side, base_rate: float | None) -> float | None:
    if run.calibration is None:
        return None
    return float(run.calibration.probabilities(score, relation, side, base_rate))


def _fact(graph: Graph, head: int, relation: int, tail: int) -> Fact:
    one, other = graph.entities.labels([head, tail])
    ends = graph.entities.identifiers
    identifiers = ends[head].as_py(), graph.relations.identifiers[relation].as_py(), ends[tail].as_py()
    return Fact(one, graph.relations.label(relation), other, identifiers)
