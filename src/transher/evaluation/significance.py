"""Significance: whether one run ranks the same queries better than another, and by how much."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transher.errors import UsageError
from transher.evaluation.bootstrap import percentile_interval, resampled_means
from transher.evaluation.ranks import Ranks
from transher.graph.graph import SIDES


@dataclass(frozen=True, repr=False)
class Comparison:
    """Reciprocal ranks of two runs, query by query; differences are first minus second."""

    queries: int
    triples: int
    first_mrr: float
    second_mrr: float
    difference: float
    interval: tuple[float, float]  # 95 %, of the difference, by the bootstrap over triples
    bootstrap_p: float  # two-sided
    wilcoxon_p: float  # two-sided
    effect_size: float | None  # Cohen's d_z; None where it is undefined, all differences being the same and not zero
    better: float  # share of queries that the first run ranks higher
    worse: float
    equal: float
    resamples: int
    seed: int

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"<Comparison of {self.queries:,} queries: MRR {self.first_mrr:.4f} and {self.second_mrr:.4f}\n"
            f" difference {self.difference:+.4f} (95 %: {low:+.4f} to {high:+.4f}), p = {self.bootstrap_p:.2g}>"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "interval": list(self.interval)}


def compare(first: Ranks, second: Ranks, resamples: int = 2000, seed: int = 0) -> Comparison:
    """Paired tests on per-query reciprocal ranks. This says what two trainings are worth on these queries; that a
    method is better than another takes several seeds of each."""
    first, second = _in_order(first), _in_order(second)
    _refuse_different_queries(first, second)
    reciprocal = 1 / first.realistic, 1 / second.realistic
    differences = reciprocal[0] - reciprocal[1]
    difference = float(differences.mean())
    means = resampled_means(differences[:, None], first.triple, resamples, seed)
    return Comparison(
        queries=len(first),
        triples=len(np.unique(first.triple)),
        first_mrr=float(reciprocal[0].mean()),
        second_mrr=float(reciprocal[1].mean()),
        difference=difference,
        interval=percentile_interval(means)[0],
        bootstrap_p=_bootstrap_p(means[:, 0], difference),
        wilcoxon_p=_wilcoxon_p(differences),
        effect_size=_effect_size(differences),
        better=float((differences > 0).mean()),
        worse=float((differences < 0).mean()),
        equal=float((differences == 0).mean()),
        resamples=resamples,
        seed=seed,
    )


def _bootstrap_p(means: NDArray[np.float64], difference: float) -> float:
    """How often a resample strays from the difference by as much as the difference is from zero. One is added above
    and below, for the sample itself: no finite number of resamples shows p = 0."""
    as_far = np.abs(means - difference) >= abs(difference)
    return float((1 + as_far.sum()) / (1 + len(means)))


def _wilcoxon_p(differences: NDArray[np.float64]) -> float:
    """Signed-rank test; equal queries say nothing and are left out, and if all are equal so are the runs. It takes the
    two queries of a triple for independent, which the bootstrap does not: where they disagree, trust the bootstrap."""
    from scipy import stats  # almost a second of CPU time, which a worker that starts again would wait for

    if not differences.any():
        return 1.0
    return float(stats.wilcoxon(differences).pvalue)


def _effect_size(differences: NDArray[np.float64]) -> float | None:
    """Cohen's d_z: the mean difference in standard deviations of the differences."""
    if not differences.any():
        return 0.0
    if np.ptp(differences) == 0:
        return None
    return float(differences.mean() / differences.std(ddof=1))


def _in_order(ranks: Ranks) -> Ranks:
    return ranks.take(np.lexsort((ranks.side, ranks.triple)))


def _refuse_different_queries(first: Ranks, second: Ranks) -> None:
    remedy = "Evaluate both on the same split of the same graph, with the same sample."
    if not len(first) or not len(second):
        raise UsageError(f"A run without ranked queries cannot be compared. {remedy}")
    if len(first) != len(second):
        raise UsageError(f"The runs ranked different queries: {len(first)} and {len(second)} of them. {remedy}")
    same = (first.triples == second.triples).all(axis=1) & (first.side == second.side) & (first.triple == second.triple)
    if not same.all():
        i = int(np.argmin(same))
        one, other = (
            f"the {SIDES[ranks.side[i]]} of {tuple(ranks.triples[i].tolist())} at {ranks.triple[i]}"
            for ranks in (first, second)
        )
        raise UsageError(
            f"The runs ranked different queries: {int((~same).sum())} of {len(same)}, first {one} against {other}. "
            f"{remedy}"
        )
