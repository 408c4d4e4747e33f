"""How far probabilities can be trusted: the reliability diagram and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 10


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
