"""How good the answers are: ranks, metrics and their breakdowns, OGB's protocol, significance."""

from __future__ import annotations

from transher.evaluation.metrics import Metrics
from transher.evaluation.protocol import Evaluation, evaluate
from transher.evaluation.ranking import rank
from transher.evaluation.ranks import Ranks
from transher.evaluation.sampled import rank_among_candidates
from transher.evaluation.significance import Comparison, compare

__all__ = [
    "Comparison",
    "Evaluation",
    "Metrics",
    "Ranks",
    "compare",
    "evaluate",
    "rank",
    "rank_among_candidates",
]
