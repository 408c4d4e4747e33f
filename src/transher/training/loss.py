"""The losses: from scores of positives (B,) and negatives (B, N) to one number.

Each takes positive (B,), negative (B, N), valid (B, N), False where a negative is a known triple and must not count, or
None where all count, weights (B,), and the training's settings. One of your own has the same arguments: name it as
`package.module:function`, or publish it under the entry point `transher.losses`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from transher import kernels
from transher.errors import UsageError
from transher.extensions import Extensions

if TYPE_CHECKING:
    from transher.training.settings import TrainingSettings

Loss = Callable[[Tensor, Tensor, Tensor | None, Tensor, "TrainingSettings"], Tensor]


def self_adversarial(
    positive: Tensor, negative: Tensor, valid: Tensor | None, weights: Tensor, settings: TrainingSettings
) -> Tensor:
    """½ [ −Σ w_i log σ(f_i) − Σ w_i Σ_j p_ij log σ(−f_ij) ] / Σ w_i, with p_i = softmax(α f_i)."""
    return kernels.self_adversarial(positive, negative, valid, weights, settings.alpha)


def cross_entropy(
    positive: Tensor,
    negative: Tensor,
    valid: Tensor | None,
    weights: Tensor,
    settings: TrainingSettings,
    stands_for: float = 1.0,
) -> Tensor:
    """−Σ w_i log softmax(f_i among itself and its negatives) / Σ w_i, with every negative counted `stands_for` times: a
    few negatives are soon told from the answer, all the entities that they are a sample of are not."""
    if valid is not None:
        negative = negative.masked_fill(~valid, -torch.inf)
    log_total = torch.logaddexp(positive, negative.logsumexp(1) + math.log(stands_for))
    return (weights * (log_total - positive)).sum() / weights.sum()


def margin_ranking(
    positive: Tensor, negative: Tensor, valid: Tensor | None, weights: Tensor, settings: TrainingSettings
) -> Tensor:
    """Σ w_i mean_j max(0, margin − f_i + f_ij) / Σ w_i."""
    violation = (settings.margin - positive[:, None] + negative).clamp_min(0)
    if valid is not None:
        violation = violation * valid
    return (weights * violation.mean(1)).sum() / weights.sum()


_LOSSES = Extensions(
    "loss",
    "transher.losses",
    {
        "self-adversarial": f"{__name__}:self_adversarial",
        "cross-entropy": f"{__name__}:cross_entropy",
        "margin": f"{__name__}:margin_ranking",
    },
)


@cache
def find_loss(name: str) -> Loss:
    """A loss by its name, an entry point, or `package.module:function`."""
    found = _LOSSES.find(name)
    if not callable(found):
        raise UsageError(f"'{name}' is not a loss: it must be a function of scores.")
    loss: Loss = found
    return loss


def loss_names() -> list[str]:
    """The losses that ship with the package, and those that other packages publish."""
    return _LOSSES.names()


def provenance(name: str) -> dict[str, str]:
    """Where a loss comes from, for the run's manifest."""
    return _LOSSES.provenance(name)


def batch_loss(
    settings: TrainingSettings,
    positive: Tensor,
    negative: Tensor,
    valid: Tensor | None,
    weights: Tensor,
    stands_for: float = 1.0,
) -> Tensor:
    """The loss that the recipe names. `stands_for`: how many entities a negative counts for in a sampled softmax."""
    if settings.sampled_softmax:  # which is a cross-entropy, as the recipe has checked
        return cross_entropy(positive, negative, valid, weights, settings, stands_for)
    loss = find_loss(settings.loss)(positive, negative, valid, weights, settings)
    if not isinstance(loss, Tensor) or loss.dim():
        raise UsageError(f"the loss '{settings.loss}' must give one number, a tensor without dimensions.")
    return loss
