"""Fewer gradients, without bias: most of a batch's negatives weigh next to nothing, and need not all be followed back.

In a half-trained model few of the pairs hold nearly all of the gradient. Keeping the heavy ones as they are, and of the
light ones a fair draw with its weight raised in proportion, leaves the expected gradient as it was; the backward kernel
then goes over what is left alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from transher.kernels import native, reference


class Thin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, share: float, key: int) -> Tensor:
        ctx.share, ctx.key = share, key
        return scores.view_as(scores)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        thinned = gradients[0].clone(memory_format=torch.contiguous_format)
        if native.serves(thinned):
            native.loaded().thin(native.threads(), thinned, ctx.share, ctx.key)
        else:
            reference.thin_(thinned, ctx.share, ctx.key)
        return thinned, None, None


def thin(scores: Tensor, share: float, key: int) -> Tensor:
    """scores (B, N), unchanged; of each row of their gradient about `share` survives. `key`, 32 bits, decides which."""
    result: Tensor = Thin.apply(scores, share, key & 0xFFFFFFFF)  # type: ignore[no-untyped-call]
    return result
