"""Trials of the judge: facts that it has not seen are hidden, it names the facts that it believes in, and they are
counted. The test split is one trial, facts that came true later are another.

A fact counts as right only if it is one of those hidden. True facts that nobody has written down count as wrong, so
what is measured is a lower bound.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from transher.answering.answers import Answering
from transher.answering.judge import Judge
from transher.answering.missing import Search, wanted_facts
from transher.answering.predicted import Predicted
from transher.errors import UsageError
from transher.evaluation.calibration import calibrate
from transher.evaluation.ranks import Progress
from transher.evaluation.reliability import Reliability
from transher.graph.encoding import triple_keys
from transher.graph.graph import Graph, Triples

BEST = (100, 1_000, 10_000)
_QUERIES, _FIRST = 10_000, 3  # questions that are drawn, and how many answers to each a person looks at
_SEED = 0


@dataclass(frozen=True)
class Promise:
    """Of some facts, what was promised and what held."""

    facts: int
    probability: float  # mean
    holds: float  # share

    @classmethod
    def of(cls, probabilities: NDArray[np.float64], holds: NDArray[np.bool_]) -> Promise:
        count = len(holds)
        return cls(count, float(probabilities.mean()) if count else 0.0, float(holds.mean()) if count else 0.0)


@dataclass(frozen=True)
class CalibrationReport:
    """How far a run's probabilities can be trusted, by the facts of its test split, with all others known."""

    graph: str
    hidden: int
    best: list[Promise]  # the best 100, 1,000 and 10,000 facts of a completion
    first_answers: Promise  # the first three unknown answers of random queries
    queries: int
    shown: Reliability  # of all these facts: the completion's and the answers
    former: Reliability  # the same facts by the calibration against drawn corruptions

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def without_test(answering: Answering) -> Answering:
    """As if the test triples were not known. The judge has not seen them anyway."""
    graph = replace(answering.graph, test=answering.graph.test[:0], candidates={})
    judge = answering.judge
    return Answering(
        answering.scorer, graph, None if judge is None else Judge(judge.verdicts, judge.describer, graph.known)
    )


def report_calibration(answering: Answering, progress: Progress | None = None) -> CalibrationReport:
    """Try the judge on the test split."""
    graph = answering.graph
    if answering.judge is None:
        raise UsageError(f"The graph '{graph.name}' has no validation triples, so its scores have no probabilities.")
    if not len(graph.test):
        raise UsageError(f"The graph '{graph.name}' has no test triples: there is nothing to try probabilities on.")
    blind = without_test(answering)
    share = _missing_share(answering.judge, len(graph.test))
    found = Search(blind, wanted_facts(blind.graph, best=max(BEST))).facts(progress)
    facts = blind.judged(found.triples.astype(np.int64), share)  # in the same order
    queries = _random_queries(blind.graph)
    answers, _ = blind.best(queries[:, 0], queries[:, 1], "tail", _FIRST, "hide", share)
    shown = facts.joined(answers)
    distinct = np.unique(triple_keys(shown.triples, len(graph.entities), len(graph.relations)), return_index=True)[1]
    shown = shown.take(distinct)
    former = calibrate(blind.scorer, blind.graph)
    assert former is not None  # there are validation triples
    before = expit(former.logits(shown.scores, shown.triples[:, 1]))
    promised, right = probabilities_of(facts), hits(graph, facts, graph.test)
    held = hits(graph, shown, graph.test)
    return CalibrationReport(
        graph=graph.name,
        hidden=len(graph.test),
        best=[Promise.of(promised[:count], right[:count]) for count in BEST],
        first_answers=Promise.of(probabilities_of(answers), hits(graph, answers, graph.test)),
        queries=len(queries),
        shown=Reliability.of(probabilities_of(shown), held),
        former=Reliability.of(np.asarray(before, np.float64), held),
    )


def _missing_share(judge: Judge, hidden: int) -> float | None:
    """The missing share that a trial with so many hidden facts has. A judge assumes as many as it was fitted on; the
    trial is of its judgement, and not of that assumption."""
    return None if judge.verdicts.later else hidden / (hidden + judge.verdicts.known)


def hits(graph: Graph, facts: Predicted, hidden: Triples) -> NDArray[np.bool_]:
    """Which of some facts are among those hidden: (n,)."""
    sizes = len(graph.entities), len(graph.relations)
    return np.isin(triple_keys(facts.triples, *sizes), triple_keys(hidden, *sizes))


def probabilities_of(facts: Predicted) -> NDArray[np.float64]:
    assert facts.probabilities is not None  # a trial has a judge
    return facts.probabilities


def _random_queries(graph: Graph) -> NDArray[np.int64]:
    """Heads and relations (n, 2) of queries for a tail, drawn from all of which the head is eligible."""
    eligible = [graph.ends.eligible(relation) for relation in range(len(graph.relations))]
    queries = np.stack(
        [np.concatenate(eligible), np.repeat(np.arange(len(eligible)), [len(heads) for heads in eligible])], 1
    ).astype(np.int64)
    chosen = np.random.default_rng(_SEED).permutation(len(queries))[:_QUERIES]
    return queries[np.sort(chosen)]
