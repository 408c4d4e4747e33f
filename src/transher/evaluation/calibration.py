"""The usual calibration of a score, as the yardstick for the judge (`transher.answering.judge`): Platt's method.

p = σ(slope_r · score + offset_r), with a positive slope. The two numbers of each relation are fitted on validation
triples against corruptions of them (`labelled_triples`: ten a side, of the right kind, none of them known). A relation
with few validation triples keeps to the fit of all relations together, to which a normal prior pulls it; one with many
goes where its data say. Among drawn corruptions few are plausible, so it promises far too much of those that are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from transher.evaluation.labelled import NEGATIVES, labelled_triples
from transher.graph.graph import Graph
from transher.scorer import Scorer

_PRIOR = 0.5  # precision of a relation's slope and offset around the pooled ones, in standardised scores
_FLATTEST = 0.05  # smallest slope of a relation, as a share of the pooled one: still monotone
_ITERATIONS = 50
_TINY = 1e-9

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Slopes and offsets (relations,)."""

    slopes: Numbers
    offsets: Numbers

    def logits(self, scores: Any, relations: Any) -> NDArray[np.float64]:
        """log(p / (1 − p)) of scores (n,) of relations (n,): (n,)."""
        values = self.slopes[relations] * np.asarray(scores, dtype=np.float64) + self.offsets[relations]
        return np.asarray(values, dtype=np.float64)


def calibrate(scorer: Scorer, graph: Graph, negatives: int = NEGATIVES) -> Calibration | None:
    """Probabilities from the validation triples; None where there are none."""
    if not len(graph.valid):
        return None
    sample = labelled_triples(graph, "valid", negatives)
    scores = sample.scores(scorer)
    relation_count = len(graph.relations)
    centre, scale = float(scores.mean()), max(float(scores.std()), 1e-9)
    standard = (scores - centre) / scale
    pooled = _fit(standard, sample.holds, np.zeros(len(scores), dtype=np.int64), np.array([[1.0, 0.0]]), 0.0)
    start = np.repeat(pooled, relation_count, axis=0)
    slopes, offsets = _fit(standard, sample.holds, sample.triples[:, 1], start, _PRIOR).T
    slopes, offsets = slopes / scale, offsets - slopes * centre / scale
    return Calibration(slopes, offsets)


def _fit(
    scores: Numbers, holds: NDArray[np.bool_], groups: NDArray[np.integer], centre: Numbers, precision: float
) -> Numbers:
    """Slope and offset of every group, (groups, 2): the most likely ones under a normal prior around `centre`, which
    is also where the search starts. Convex, so there is one answer; groups are independent, so Newton's method solves a
    system of two unknowns for each. A slope that would fall below the flattest stays there while its offset moves."""
    count = len(centre)
    slopes, offsets = centre[:, 0].copy(), centre[:, 1].copy()
    flattest = max(1e-3, _FLATTEST * float(centre[0, 0]))

    def total(values: Numbers) -> Numbers:
        return np.bincount(groups, values, count).astype(np.float64)

    for _ in range(_ITERATIONS):
        given = expit(slopes[groups] * scores + offsets[groups])
        errors, curvature = given - holds, given * (1 - given)
        slope_gradient = total(errors * scores) + precision * (slopes - centre[:, 0])
        offset_gradient = total(errors) + precision * (offsets - centre[:, 1])
        slope_curvature = total(curvature * scores * scores) + precision + _TINY
        mixed = total(curvature * scores)
        offset_curvature = total(curvature) + precision + _TINY
        held = (slopes <= flattest) & (slope_gradient > 0)
        mixed[held] = slope_gradient[held] = 0.0
        determinant = slope_curvature * offset_curvature - mixed * mixed
        slope_step = (offset_curvature * slope_gradient - mixed * offset_gradient) / determinant
        offset_step = (slope_curvature * offset_gradient - mixed * slope_gradient) / determinant
        # Far from the answer the curvature vanishes and a full step would leap over it.
        shorten = 1 / np.maximum(1, np.hypot(slope_step, offset_step))
        slopes = np.maximum(flattest, slopes - shorten * slope_step)
        offsets = offsets - shorten * offset_step
        if max(np.abs(slope_step).max(initial=0), np.abs(offset_step).max(initial=0)) < 1e-6:
            break
    return np.stack([slopes, offsets], axis=1)
