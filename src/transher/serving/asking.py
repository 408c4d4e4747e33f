"""What the model thinks, by ids: answers, predicted facts of an entity, missing facts of a relation, similar entities.

Every question is bounded: at most `_WORK` coordinates are compared, whatever the size of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.deadline import slices
from transher.graph.graph import Side
from transher.graph.statistics import RELATION_TYPES
from transher.kernels import Known
from transher.runs.run import Run
from transher.serving.facts import Facts

_WORK = 4_000_000_000  # coordinates: about a second on two cores
_ANCHORS = 512  # entities for which a relation's missing facts are looked for
_QUERIES = 32  # for an entity's predicted facts
_EACH = 24  # answers of one query that may become predicted facts
_SHOWN = 4  # predicted facts of one query, so that one relation does not fill the list
_ROWS = 1 << 14  # candidates at a time

Ids = NDArray[np.integer[Any]]


class Predicted(NamedTuple):
    """Triples by ids (n, 3) with scores (n,) and, where the run is calibrated, probabilities (n,)."""

    triples: NDArray[np.int64]
    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64] | None

    def only(self, chosen: NDArray[Any] | slice) -> Predicted:
        """Some of them, by a mask, by positions or by a slice."""
        chances = self.probabilities
        return Predicted(self.triples[chosen], self.scores[chosen], None if chances is None else chances[chosen])

    def best(self, count: int) -> Predicted:
        """By probability, or by score where there is none."""
        value = self.scores if self.probabilities is None else self.probabilities
        return self.only(np.lexsort((-self.scores, -value))[:count])


def probabilities(
    run: Run, triples: Ids, scores: NDArray[np.float64], side: Side, base_rate: float | None = None
) -> NDArray[np.float64] | None:
    """How likely each triple is to hold, as the run is calibrated; None where it is not."""
    return None if run.calibration is None else run.calibration.probabilities(scores, triples[:, 1], side, base_rate)


def ask(
    run: Run, facts: Facts, anchors: Ids, relations: Ids, side: Side, top: int, hide: bool,
    base_rates: Sequence[float | None] | None = None,
) -> list[Predicted]:  # fmt: skip
    """The best answers to each of B queries of one side, best first. anchors, relations, base_rates: (B,). An entity is
    no answer to a question about itself, unless the relation joins some entity with itself."""
    scores, ids = run.scorer.best(_tensor(anchors), _tensor(relations), side, min(top + 1, run.scorer.entity_count),
        _known(facts, anchors, relations, side) if hide else None,
    )  # fmt: skip
    found = [
        _predicted(run, int(anchor), int(relation), side, ids[i], scores[i], base_rates[i] if base_rates else None)
        for i, (anchor, relation) in enumerate(zip(anchors, relations, strict=True))
    ]
    return [predicted.only(_no_odd_loops(run, predicted)).only(slice(top)) for predicted in found]


def score(run: Run, triples: Ids, base_rate: float | None = None) -> Predicted:
    """Given triples (n, 3), with their scores."""
    scores = run.scorer.score_triples(_tensor(triples)).double().numpy()
    return Predicted(np.asarray(triples, np.int64), scores, probabilities(run, triples, scores, "tail", base_rate))


def predicted_facts(run: Run, facts: Facts, types: NDArray[np.int8], entity: int, top: int) -> Predicted:
    """The best facts about an entity that the graph lacks, over the relations that it or entities like it have.

    Where a relation has one answer a side and the entity has it already, nothing is asked.
    """
    groups = facts.of(entity)
    wanted = {(group.relation, group.side): len(group.others) for group in groups}
    for other, _ in similar(run, entity, 8):
        for group in facts.of(other):
            wanted.setdefault((group.relation, group.side), 0)
    affordable = max(4, _WORK // (run.scorer.entity_count * run.scorer.model.entity_width))
    open_queries = [query for query, count in wanted.items() if not (count and _single(types, *query))]
    parts: list[Predicted] = []
    for side in ("tail", "head"):
        relations = np.array([relation for relation, end in open_queries if end == side], dtype=np.int64)
        relations = relations[: min(_QUERIES, affordable)]
        if len(relations):
            answers = ask(run, facts, np.full(len(relations), entity), relations, side, _EACH, hide=True)
            for relation, found in zip(relations.tolist(), answers, strict=True):
                fitting = found.only(facts.play(relation, side, found.triples[:, 2 if side == "tail" else 0]))
                parts.append(_plausible(run, fitting, facts, types).only(slice(_SHOWN)))
    return _join(parts).best(top)


def missing_facts(run: Run, facts: Facts, types: NDArray[np.int8], relation: int, top: int) -> Predicted:
    """The best triples of a relation that the graph lacks, between entities of the kinds that it joins.

    Where a side has one answer, those are asked about that have none, though their other relations say that they
    should; elsewhere all that have some.
    """
    pairs = facts.pairs(relation)
    side: Side = "head" if _single(types, relation, "head") and not _single(types, relation, "tail") else "tail"
    anchor_column, answer_column = (0, 1) if side == "tail" else (1, 0)
    anchors, candidates = np.unique(pairs[:, anchor_column]), np.unique(pairs[:, answer_column])
    if _single(types, relation, side):
        anchors = facts.lacking(anchors)
    if not len(anchors):
        return _join([])
    width = run.scorer.model.entity_width
    candidates = _of_most_facts(candidates, facts, _WORK // (16 * width))
    anchors = _of_most_facts(anchors, facts, min(_ANCHORS, max(16, _WORK // (len(candidates) * width))))
    relations = np.full(len(anchors), relation)
    offsets, known = facts.answers[side].of(anchors, relations)
    places = np.searchsorted(candidates, known)
    places[places == len(candidates)] = 0
    places = np.where(candidates[places] == known, places, len(candidates)).astype(np.int32)  # out of reach: no entity
    excluded = Known(torch.from_numpy(offsets[:-1].copy()), torch.from_numpy(offsets[1:].copy()), _tensor(places).int())
    with torch.no_grad():
        query = run.scorer.query(_tensor(anchors), _tensor(relations), side)
        chunks = ((part.start, run.scorer.rows(_tensor(candidates[part]))) for part in slices(len(candidates), _ROWS))
        size = min(len(candidates), max(4, -(-4 * top // len(anchors))))
        scores, found = run.scorer.model.best(query, chunks, size, excluded)
    ids = torch.where(found >= 0, torch.from_numpy(candidates.astype(np.int64))[found.clamp_min(0)], -1)
    parts = [_predicted(run, int(anchor), relation, side, ids[i], scores[i]) for i, anchor in enumerate(anchors)]
    return _plausible(run, _join(parts), facts, types).best(top)


@torch.no_grad()
def similar(run: Run, entity: int, top: int) -> list[tuple[int, float]]:
    """The entities whose embeddings point most nearly the same way, with the cosine."""
    own = torch.nn.functional.normalize(run.scorer.rows(_tensor(np.array([entity]))), dim=-1)[0]
    best: list[tuple[float, int]] = []
    for first, rows in run.scorer.chunks():
        cosines = (rows @ own) / rows.norm(dim=-1).clamp_min(1e-12)
        values, places = cosines.topk(min(top + 1, len(rows)))
        best += [(value, first + place) for value, place in zip(values.tolist(), places.tolist(), strict=True)]
    best.sort(key=lambda pair: (-pair[0], pair[1]))
    return [(id, value) for value, id in best if id != entity][:top]


def _single(types: NDArray[np.int8], relation: int, side: Side) -> bool:
    """Whether a relation has one answer on a side: its type names the heads first."""
    name = RELATION_TYPES[types[relation]]
    return name.endswith("1") if side == "tail" else name.startswith("1")


def _of_most_facts(ids: NDArray[np.int32], facts: Facts, count: int) -> NDArray[np.int32]:
    if len(ids) <= count:
        return ids
    return np.sort(ids[np.argpartition(facts.degree[ids], -count)[-count:]])


def _known(facts: Facts, anchors: Ids, relations: Ids, side: Side) -> Known:
    starts, ends = facts.answers[side].ranges(anchors, relations)
    return Known(torch.from_numpy(starts), torch.from_numpy(ends), torch.from_numpy(facts.answers[side].answers))


def _predicted(
    run: Run, anchor: int, relation: int, side: Side, ids: Tensor, scores: Tensor, base_rate: float | None = None
) -> Predicted:
    found = ids[ids >= 0].numpy()
    values = scores[: len(found)].double().numpy()
    given = np.full(len(found), anchor)
    heads, tails = (given, found) if side == "tail" else (found, given)
    triples = np.stack([heads, np.full(len(found), relation), tails], 1)
    return Predicted(triples, values, probabilities(run, triples, values, side, base_rate))


def _join(parts: list[Predicted]) -> Predicted:
    if not parts:
        return Predicted(np.zeros((0, 3), np.int64), np.zeros(0), None)
    likely = [part.probabilities for part in parts if part.probabilities is not None]
    return Predicted(
        np.concatenate([part.triples for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate(likely) if len(likely) == len(parts) else None,
    )


def _no_odd_loops(run: Run, predicted: Predicted) -> NDArray[np.bool_]:
    """Which triples (n, 3) are not of an entity with itself, or of a relation that has such."""
    heads, relations, tails = predicted.triples.T
    mask: NDArray[np.bool_] = (heads != tails) | run.graph.has_loops[relations]
    return mask


def _plausible(run: Run, predicted: Predicted, facts: Facts, types: NDArray[np.int8]) -> Predicted:
    """Without those that contradict a known fact, where a relation has one answer a side, and without facts of an
    entity with itself, unless the relation has such."""
    heads, relations, tails = predicted.triples.T
    keep = _no_odd_loops(run, predicted)
    one_tail = np.array([_single(types, r, "tail") for r in relations.tolist()], dtype=np.bool_)
    one_head = np.array([_single(types, r, "head") for r in relations.tolist()], dtype=np.bool_)
    keep &= ~(one_tail & (facts.answers["tail"].counts(heads, relations) > 0))
    keep &= ~(one_head & (facts.answers["head"].counts(tails, relations) > 0))
    return predicted.only(keep)


def _tensor(ids: Ids) -> Tensor:
    return torch.from_numpy(np.asarray(ids, dtype=np.int64))
