"""The judge: from a triple and its score to the probability that it holds, the same for everybody who asks.

The probability is the calibrated one (`transher.evaluation.calibration`), moved to the base rate of pairs like it:

- an eligible pair of a relation: as if the graph lacked as many facts of it as were held out for validation;
- a second answer where the relation has a single one: as rare as such answers are in the graph;
- a pair that does not fit the relation: one of all pairs of entities, of which the graph has none.

A base rate that the user gives takes the place of all three.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transher.errors import UsageError
from transher.evaluation.calibration import Calibration
from transher.graph.graph import Graph


class Judge:
    """Log odds are what is compared: they are finer than probabilities that are almost 1."""

    def __init__(self, calibration: Calibration, graph: Graph) -> None:
        self._calibration = calibration
        held_out = np.bincount(graph.valid[:, 1], minlength=len(graph.relations))
        self._ends, self._stray = graph.ends, 0.5 / (len(graph.entities) ** 2 + 1)
        self._base_rates: NDArray[np.float64] = np.minimum(0.5, (held_out + 0.5) / (graph.ends.eligible_pairs + 1))

    def log_odds(
        self, triples: NDArray[np.integer], scores: NDArray[np.float32], base_rate: float | None = None
    ) -> NDArray[np.float64]:
        """log(p / (1 − p)) of triples (n, 3) with scores (n,): (n,)."""
        relations = triples[:, 1]
        rates = self._rates(base_rate)[relations]
        if base_rate is None:
            rates = np.where(self._ends.taken(triples), self._ends.second_answers[relations], rates)
            rates = np.where(self._ends.fits(triples), rates, self._stray)
        return self._calibration.logits(scores, relations, rates)

    def score_at(self, log_odds: float, relation: int, base_rate: float | None = None) -> float:
        """The score from which on triples of a relation have these log odds."""
        return self._calibration.score_at(log_odds, relation, float(self._rates(base_rate)[relation]))

    def _rates(self, base_rate: float | None) -> NDArray[np.float64]:
        if base_rate is None:
            return self._base_rates
        if not 0 < base_rate < 1:
            raise UsageError(f"The base rate is the share of triples that hold, between 0 and 1, and not {base_rate}.")
        return np.full_like(self._base_rates, base_rate)
