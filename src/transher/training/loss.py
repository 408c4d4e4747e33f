"""The losses: from scores of positives (B,) and negatives (B, N) to one number.

valid: (B, N), False where a negative is a known triple and must not count; None where all count. weights: (B,).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from transher import kernels
from transher.training.recipe import TrainingSettings


def batch_loss(
    settings: TrainingSettings,
    positive: Tensor,
    negative: Tensor,
    valid: Tensor | None,
    weights: Tensor,
    stands_for: float = 1.0,
) -> Tensor:
    """The loss that the recipe names. `stands_for`: how many entities a negative counts for in a cross-entropy."""
    match settings.loss:
        case "self-adversarial":
            return kernels.self_adversarial(positive, negative, valid, weights, settings.alpha)
        case "cross-entropy":
            return cross_entropy(positive, negative, valid, weights, stands_for)
        case "margin":
            return margin_ranking(positive, negative, valid, weights, settings.margin)


def cross_entropy(
    positive: Tensor, negative: Tensor, valid: Tensor | None, weights: Tensor, stands_for: float = 1.0
) -> Tensor:
    """−Σ w_i log softmax(f_i among itself and its negatives) / Σ w_i, with every negative counted `stands_for` times: a
    few negatives are soon told from the answer, all the entities that they are a sample of are not."""
    if valid is not None:
        negative = negative.masked_fill(~valid, -torch.inf)
    log_total = torch.logaddexp(positive, negative.logsumexp(1) + math.log(stands_for))
    return (weights * (log_total - positive)).sum() / weights.sum()


def margin_ranking(positive: Tensor, negative: Tensor, valid: Tensor | None, weights: Tensor, margin: float) -> Tensor:
    """Σ w_i mean_j max(0, margin − f_i + f_ij) / Σ w_i."""
    violation = (margin - positive[:, None] + negative).clamp_min(0)
    if valid is not None:
        violation = violation * valid
    return (weights * violation.mean(1)).sum() / weights.sum()
