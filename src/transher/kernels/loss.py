"""The self-adversarial loss: value and gradient in one native pass, or in torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from transher.kernels import native, reference


class SelfAdversarial(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, positive: Tensor, negative: Tensor, valid: Tensor | None, weights: Tensor, alpha: float
    ) -> Tensor:
        positive, negative, weights = positive.contiguous(), negative.contiguous(), weights.contiguous()
        valid = None if valid is None else valid.contiguous()
        d_positive, d_negative = torch.empty_like(positive), torch.empty_like(negative)
        loss = native.loaded().self_adversarial(
            native.threads(), positive, negative, valid, weights, alpha, d_positive, d_negative
        )
        ctx.save_for_backward(d_positive, d_negative)
        return positive.new_tensor(loss)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        d_positive, d_negative = ctx.saved_tensors
        upstream = gradients[0].item()
        if upstream != 1.0:
            d_positive, d_negative = d_positive * upstream, d_negative * upstream
        return d_positive, d_negative, None, None, None


def self_adversarial(positive: Tensor, negative: Tensor, valid: Tensor | None, weights: Tensor, alpha: float) -> Tensor:
    """positive: scores (B,), negative: scores (B, N), valid: bool (B, N), False where a negative does not count,
    weights: (B,) → (L⁺ + L⁻)/2, a scalar. A row without any valid negative adds nothing to L⁻."""
    if not native.serves(positive, negative, weights):
        return reference.self_adversarial(positive, negative, valid, weights, alpha)
    result: Tensor = SelfAdversarial.apply(positive, negative, valid, weights, alpha)  # type: ignore[no-untyped-call]
    return result
