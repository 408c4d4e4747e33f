"""Probabilities: from a score to how likely the triple is to hold.

p = σ(slope_r · score + offset_r), with a positive slope, so that within a relation probabilities order answers as
scores do. The two numbers of each relation are fitted on validation triples against corruptions of them
(`labelled_triples`: ten a side, of the right kind, none of them known). A relation with few validation triples keeps to
the fit of all relations together, to which a normal prior pulls it; one with many goes where its data say.

What a probability means depends on how rare true triples are among those that are asked about. In the sampling one in
eleven holds; among all pairs of entities that a relation could join, far fewer do. Bayes' rule moves the offset to
another base rate: logit(p) + logit(new base rate) − logit(sampled base rate). `transher.answering.judge` says which.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from transher.errors import InputError
from transher.evaluation.labelled import NEGATIVES, labelled_triples
from transher.files import write_json
from transher.graph.graph import SIDES, Graph
from transher.scorer import Scorer

CALIBRATION_FILE = "calibration.json"
FORMAT = 1
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
    positives: NDArray[np.int64]  # (relations,), validation triples that each fit has seen
    base_rate: float  # of the sampling
    negatives: int

    def logits(self, scores: Any, relations: Any, base_rates: Any) -> NDArray[np.float64]:
        """log(p / (1 − p)) of scores (n,) of relations (n,) under base rates (n,), or one for all. Finer than p where p
        is almost 1."""
        values = self.slopes[relations] * np.asarray(scores, dtype=np.float64) + self.offsets[relations]
        return np.asarray(values + self._shift(base_rates), dtype=np.float64)

    def score_at(self, log_odds: float, relation: int, base_rate: float) -> float:
        """The score from which on triples of a relation have these log odds: the inverse of `logits`."""
        return float((log_odds - self._shift(base_rate) - self.offsets[relation]) / self.slopes[relation])

    def _shift(self, base_rates: Any) -> Any:
        return logit(base_rates) - logit(self.base_rate)

    def save(self, folder: Path, graph: Graph) -> None:
        identifiers = graph.relations.identifiers.to_pylist()
        write_json(
            folder / CALIBRATION_FILE,
            {
                "format": FORMAT,
                "probability": "1 / (1 + exp(−(slope · score + offset)))",
                "base_rate": self.base_rate,
                "negatives_per_side": self.negatives,
                "relations": {
                    name: {"positives": int(self.positives[i]), "both": [self.slopes[i], self.offsets[i]]}
                    for i, name in enumerate(identifiers)
                },
            },
        )

    @classmethod
    def load(cls, folder: Path, graph: Graph) -> Calibration:
        path = folder / CALIBRATION_FILE
        try:
            saved = json.loads(path.read_text("utf-8"))
            rows = [saved["relations"][name] for name in graph.relations.identifiers.to_pylist()]
            # Version 0.1.0 fitted each side on its own where a triple had two scores. Their mean is that of its score.
            sides = ("both",) if not rows or "both" in rows[0] else SIDES
            fits = np.array([[row[side] for side in sides] for row in rows], dtype=np.float64).reshape(len(rows), -1, 2)
            positives = np.array([row["positives"] for row in rows], dtype=np.int64)
            slopes, offsets = fits.mean(1).T
            return cls(slopes, offsets, positives, float(saved["base_rate"]), saved["negatives_per_side"])
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"is not a calibration of this graph ({error}).", file=path, remedy="Take a copy of the run."
            ) from None


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
    positives = np.bincount(sample.triples[sample.holds, 1], minlength=relation_count) // 2
    return Calibration(slopes, offsets, positives, sample.base_rate, negatives)


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
