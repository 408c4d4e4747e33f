"""The bootstrap over triples: what a mean over queries could have been with other triples of the same kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transher.deadline import slices

RESAMPLES = 1000

# Draws held at a time, 8 MB: those of a few resamples, or of one if the triples are many.
_DRAWS = 1 << 20


def resampled_means(
    values: NDArray[np.float64], triple: NDArray[np.int64], resamples: int = RESAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """Means (resamples, m) of `values` (q, m) over triples drawn with replacement.

    `triple` (q,) says which triple a query belongs to. Both of a triple's queries are drawn together: they are not
    independent, and drawing them apart would give intervals that are too narrow.
    """
    distinct, of_query = np.unique(triple, return_inverse=True)
    count = len(distinct)
    # What a triple adds to the sums, and to the number of queries in the last column: (triples, m + 1).
    shares = np.stack([np.bincount(of_query, column, count) for column in (*values.T, np.ones(len(values)))], axis=1)
    rng = np.random.default_rng(seed)
    means = np.empty((resamples, values.shape[1]))
    for part in slices(resamples, max(1, _DRAWS // count)):
        rows = part.stop - part.start
        draws = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        times_drawn = np.bincount(draws.reshape(-1), minlength=rows * count).reshape(rows, count)
        sums = times_drawn.astype(np.float64) @ shares
        means[part] = sums[:, :-1] / sums[:, -1:]
    return means


def percentile_interval(means: NDArray[np.float64], level: float = 0.95) -> list[tuple[float, float]]:
    """(low, high) that hold the middle `level` of each column of `means` (resamples, m)."""
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))
