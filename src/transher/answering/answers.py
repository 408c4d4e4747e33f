"""Answers in names: the best heads, tails or relations for what is given, and scores of single triples."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.errors import UsageError
from transher.evaluation.calibration import Calibration
from transher.graph.graph import Graph, Side
from transher.kernels import Known
from transher.scorer import Scorer

KnownAnswers = Literal["hide", "mark"]


def predict(
    scorer: Scorer,
    graph: Graph,
    *,
    head: str | None = None,
    relation: str | None = None,
    tail: str | None = None,
    top: int = 10,
    known: KnownAnswers = "mark",
    calibration: Calibration | None = None,
    base_rate: float | None = None,
) -> pd.DataFrame:
    """The `top` answers for the one of head, relation and tail that is not given, best first. An entity is no answer to
    a question about itself, unless the relation joins some entity with itself.

    Columns: rank, head, relation, tail (labels), identifier (the answer's), score, probability (given a calibration),
    known (whether the graph has it). Relations are ordered by probability where there is one: their scores are not
    on one scale.
    """
    likelihood = None if calibration is None else Likelihood(calibration, base_rate)
    if top < 1:
        raise UsageError(f"top must be at least 1, not {top}.")
    match head, relation, tail:
        case (str(), str(), None):
            return _entities(scorer, graph, head, relation, "tail", top, known, likelihood)
        case (None, str(), str()):
            return _entities(scorer, graph, tail, relation, "head", top, known, likelihood)
        case (str(), None, str()):
            return _relations(scorer, graph, head, tail, top, known, likelihood)
    raise UsageError("give two of head, relation and tail; the third is what is asked for.")


class Likelihood(NamedTuple):
    """How scores become probabilities, and under which base rate."""

    calibration: Calibration
    base_rate: float | None

    def of(self, scores: Tensor, relations: NDArray[np.int64], side: Side) -> NDArray[np.float64]:
        return self.calibration.probabilities(scores.numpy(), relations, side, self.base_rate)


def _entities(
    scorer: Scorer,
    graph: Graph,
    anchor: str,
    relation: str,
    side: Side,
    top: int,
    known: KnownAnswers,
    likelihood: Likelihood | None,
) -> pd.DataFrame:
    anchor_id, relation_id = graph.entities.find(anchor), graph.relations.find(relation)
    answers = _known_answers(graph, anchor_id, relation_id, side)
    hidden = answers if known == "hide" else answers[:0]
    if not graph.has_loops[relation_id]:
        hidden = np.append(hidden, np.int32(anchor_id))
    scores, ids = scorer.best(
        torch.tensor([anchor_id]),
        torch.tensor([relation_id]),
        side,
        min(top, len(graph.entities)),
        Known(torch.tensor([0]), torch.tensor([len(hidden)]), torch.from_numpy(hidden)),
    )
    found = ids[0][ids[0] >= 0].numpy()
    given = np.full(len(found), anchor_id)
    heads, tails = (given, found) if side == "tail" else (found, given)
    triples = np.stack([heads, np.full(len(found), relation_id), tails], 1)
    identifiers = graph.entities.identifiers.take(found).to_pylist()
    best = scores[0, : len(found)]
    probabilities = None if likelihood is None else likelihood.of(best, triples[:, 1], side)
    return _table(graph, triples, identifiers, best, probabilities, np.isin(found, answers))


def _known_answers(graph: Graph, anchor: int, relation: int, side: Side) -> NDArray[np.int32]:
    """By one pass over the triples: for a single query that is faster than building an index."""
    triples = graph.all_triples
    given, asked = (0, 2) if side == "tail" else (2, 0)
    found: NDArray[np.int32] = triples[(triples[:, given] == anchor) & (triples[:, 1] == relation), asked]
    return found


def _relations(
    scorer: Scorer, graph: Graph, head: str, tail: str, top: int, known: KnownAnswers, likelihood: Likelihood | None
) -> pd.DataFrame:
    head_id, tail_id = graph.entities.find(head), graph.entities.find(tail)
    count = len(graph.relations)
    triples = np.stack([np.full(count, head_id), np.arange(count), np.full(count, tail_id)], 1)
    scores = scorer.score_triples(torch.from_numpy(triples))
    everything = graph.all_triples
    between = everything[(everything[:, 0] == head_id) & (everything[:, 2] == tail_id), 1]
    is_known = np.isin(np.arange(count), between)
    probabilities = None if likelihood is None else likelihood.of(scores, triples[:, 1], "tail")
    order = np.argsort(-(scores.numpy() if probabilities is None else probabilities), kind="stable")
    if known == "hide":
        order = order[~is_known[order]]
    order = order[:top]
    identifiers = graph.relations.identifiers.take(order).to_pylist()
    if probabilities is not None:
        probabilities = probabilities[order]
    return _table(graph, triples[order], identifiers, scores[torch.from_numpy(order)], probabilities, is_known[order])


def _table(
    graph: Graph,
    triples: NDArray[np.int64],
    identifiers: list[str],
    scores: Tensor,
    probabilities: NDArray[np.float64] | None,
    known: NDArray[np.bool_],
) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "rank": np.arange(1, len(triples) + 1),
            "head": graph.entities.labels(triples[:, 0]),
            "relation": graph.relations.labels(triples[:, 1]),
            "tail": graph.entities.labels(triples[:, 2]),
            "identifier": identifiers,
            "score": scores.numpy(),
        }
    )
    if probabilities is not None:
        table["probability"] = probabilities
    table["known"] = known
    return table
