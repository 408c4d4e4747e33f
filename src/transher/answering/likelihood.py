"""How likely hidden facts are, where only a share of what holds was hidden.

A pair that holds with probability q = σ(z) is among the hidden facts with probability c·q, since of the facts that
training did not see only the share c was hidden; the rest is missing. So −log(c·q) is the loss of a hidden fact, and
−log(1 − c·q) that of any other pair. With c = 1 this is the ordinary log loss. A pair that surely holds can do no
better than c, and is not punished for the half of its likes that are missing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

Numbers = NDArray[np.float64]
HALF = 0.5  # of what training did not see, where as much is missing as was hidden


def losses(z: Numbers, hidden: NDArray[np.bool_], share: float) -> Numbers:
    """Loss of each of n pairs with log odds z (n,): (n,)."""
    return np.where(hidden, -np.log(share) - log_expit(z), -np.log(_rest(z, share)))


def derivatives(z: Numbers, hidden: NDArray[np.bool_], share: float) -> tuple[Numbers, Numbers]:
    """Its derivative by z, and the Fisher information of z, which is the expected second derivative: (n,) each."""
    holds, not_holds = expit(z), expit(-z)
    slope = share * holds * not_holds / np.maximum((1 - share) + share * not_holds, np.finfo(np.float64).tiny)
    return np.where(hidden, -not_holds, slope), slope * not_holds


def _rest(z: Numbers, share: float) -> Numbers:
    """1 − c·σ(z), exact where it is almost nil, and never nil."""
    return np.maximum((1 - share) + share * expit(-z), np.finfo(np.float64).tiny)
