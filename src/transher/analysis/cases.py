"""Case studies: the top of single queries under two runs side by side, in names, with the answer marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transher.analysis.page import Cells, Section, Subject
from transher.analysis.tables import paper
from transher.errors import UsageError
from transher.graph.graph import Graph, Side

TOP = 8
SAMPLED = 5


@dataclass(frozen=True)
class Case:
    """A query with its answer, all in ids."""

    anchor: int
    relation: int
    answer: int
    side: Side


def cases_section(subjects: Sequence[Subject]) -> Section:
    """The paper's queries where the graph has them, else test queries on which the runs differ."""
    shown, graph = subjects[:2], subjects[0].run.graph
    cases, of_paper = paper_cases(graph), True
    if not cases:
        cases, of_paper = sampled_cases(shown), False
    origin = (
        "These are the paper's queries." if of_paper else "Drawn from the test triples of which a run knew something."
    )
    return Section(
        "cases",
        "Single questions",
        f"{origin} The answer is marked. As in the evaluation, other known answers are left out. Look at the "
        "answers around it: are they wrong, or only unknown?",
        tables=[_table(case, shown) for case in cases],
    )


def paper_cases(graph: Graph) -> list[Case]:
    found = []
    for case in paper()["cases"]:
        side: Side = "tail" if "head" in case else "head"
        try:
            anchor, answer = graph.entities.find(case.get("head") or case["tail"]), graph.entities.find(case["answer"])
            found.append(Case(anchor, graph.relations.find(case["relation"]), answer, side))
        except UsageError:
            continue  # another graph
    return found


def sampled_cases(subjects: Sequence[Subject]) -> list[Case]:
    """Test queries of different relations that at least one run answers among the top, the runs far apart first."""
    ranks = [subject.evaluation.ranks for subject in subjects]
    realistic = np.stack([own.realistic for own in ranks])
    order = np.random.default_rng(0).permutation(realistic.shape[1])
    seen_at_all = realistic.min(0)[order] <= TOP
    apart = np.ptp(1 / realistic, axis=0)[order]
    order = order[np.lexsort((-apart, ~seen_at_all))]
    cases: list[Case] = []
    for place in order.tolist():
        head, relation, tail = ranks[0].triples[place].tolist()
        if relation not in {case.relation for case in cases}:
            side: Side = "head" if ranks[0].side[place] == 0 else "tail"
            cases.append(Case(head if side == "tail" else tail, relation, tail if side == "tail" else head, side))
        if len(cases) == SAMPLED:
            break
    return cases


def _table(case: Case, subjects: Sequence[Subject]) -> Cells:
    graph = subjects[0].run.graph
    anchor, answer = graph.entities.labels([case.anchor, case.answer])
    relation = graph.relations.label(case.relation)
    query = f"({anchor}, {relation}, ?)" if case.side == "tail" else f"(?, {relation}, {anchor})"
    columns, marked = [], set()
    for column, subject in enumerate(subjects, 1):
        best = filtered_top(subject, case)
        columns.append(graph.entities.labels(best))
        marked |= {(row, column) for row in np.flatnonzero(best == case.answer).tolist()}
    rows = [[str(place + 1), *(column[place] for column in columns)] for place in range(min(map(len, columns)))]
    rows.append(["rank of the answer", *(f"{answer_rank(subject, case):,}" for subject in subjects)])
    return Cells(["", *(subject.label for subject in subjects)], rows, frozenset(marked), f"{query} → {answer}")


def answer_rank(subject: Subject, case: Case) -> int:
    """1 + how many candidates, other answers left out, are better."""
    ends = (case.anchor, case.answer) if case.side == "tail" else (case.answer, case.anchor)
    return subject.run.answering.rank((ends[0], case.relation, ends[1]), case.side)


def filtered_top(subject: Subject, case: Case) -> NDArray[np.int32]:
    """The best candidates, other answers left out."""
    anchors, relations = np.array([case.anchor]), np.array([case.relation])
    known = int(subject.run.graph.known.answers(case.side).counts(anchors, relations)[0])
    found, _ = subject.run.answering.best(anchors, relations, case.side, TOP + known)
    answers: NDArray[np.int32] = found.triples[:, 2 if case.side == "tail" else 0]
    answers = answers[~found.known | (answers == case.answer)]
    return answers[:TOP]
