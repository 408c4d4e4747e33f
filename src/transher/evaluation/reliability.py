"""How far probabilities can be trusted: the reliability diagram and what it comes to, before and after calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from transher.errors import UsageError
from transher.evaluation.calibration import Calibration
from transher.evaluation.labelled import labelled_triples
from transher.graph.graph import Graph, Split
from transher.scorer import Scorer

BINS = 15
_TEST_SEED = 1  # other draws than those that the calibration was fitted on


@dataclass(frozen=True)
class Bin:
    """One point of the diagram: triples with a probability from `start` to `end`."""

    start: float
    end: float
    count: int
    probability: float  # mean of those given
    holds: float  # share that holds


@dataclass(frozen=True)
class Reliability:
    """A set of probabilities against the truth."""

    calibration_error: float  # mean |probability − share that holds| over bins, weighted by their counts
    brier: float  # mean squared error
    log_loss: float
    bins: list[Bin]

    @classmethod
    def of(cls, probabilities: NDArray[np.float64], holds: NDArray[np.bool_]) -> Reliability:
        """probabilities, holds: (n,). Bins are of equal width."""
        bin_of = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
        counts = np.bincount(bin_of, minlength=BINS)
        filled = np.maximum(counts, 1)
        given = np.bincount(bin_of, probabilities, BINS) / filled
        true = np.bincount(bin_of, holds, BINS) / filled
        clipped = np.clip(probabilities, 1e-12, 1 - 1e-12)
        return cls(
            calibration_error=float((np.abs(given - true) * counts).sum() / len(holds)),
            brier=float(np.square(probabilities - holds).mean()),
            log_loss=float(-np.log(np.where(holds, clipped, 1 - clipped)).mean()),
            bins=[
                Bin(place / BINS, (place + 1) / BINS, int(counts[place]), float(given[place]), float(true[place]))
                for place in np.flatnonzero(counts).tolist()
            ],
        )


@dataclass(frozen=True)
class CalibrationReport:
    """What calibration does to the probabilities of a split."""

    graph: str
    split: Split
    triples: int
    negatives_per_side: int
    base_rate: float
    before: Reliability  # σ(score), which is what the loss of the training makes of a score
    after: Reliability

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def report_calibration(
    scorer: Scorer, graph: Graph, calibration: Calibration | None, split: Split = "test"
) -> CalibrationReport:
    """Judge a run's probabilities on the triples of a split and corruptions of them, sampled as for the calibration."""
    if calibration is None:
        raise UsageError(f"The graph '{graph.name}' has no validation triples, so its scores are not calibrated.")
    if not len(graph.split(split)):
        raise UsageError(f"The graph '{graph.name}' has no {split} triples: there is nothing to judge by.")
    sample = labelled_triples(graph, split, calibration.negatives, seed=_TEST_SEED)
    scores = sample.scores(scorer)
    calibrated = expit(calibration.logits(scores, sample.triples[:, 1], sample.base_rate))
    return CalibrationReport(
        graph=graph.name,
        split=split,
        triples=int(sample.holds.sum()) // 2,
        negatives_per_side=calibration.negatives,
        base_rate=sample.base_rate,
        before=Reliability.of(np.asarray(expit(scores), dtype=np.float64), sample.holds),
        after=Reliability.of(np.asarray(calibrated, dtype=np.float64), sample.holds),
    )
