"""The kernels in plain torch: the truth that tests compare with, and what runs where there is no native module.

Shapes: a query part is (B, k), candidates are (N, k) for `cross` and (B, k) for `pairs`; scores are (B, N) and (B,).
None of these functions ever holds a (B, N, k) tensor, neither forward nor for the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class ScaledL1(torch.autograd.Function):
    """distance[b, n] = Σ_i |q[b, i] − s[b, i]·e[n, i]|, one candidate at a time so that memory stays (B, k)."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, s: Tensor, e: Tensor) -> Tensor:
        ctx.save_for_backward(q, s, e)
        distance = q.new_empty(len(q), len(e))
        for n, candidate in enumerate(e):
            distance[:, n] = torch.addcmul(q, s, candidate, value=-1).abs_().sum(-1)
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, s, e = ctx.saved_tensors
        (upstream,) = gradients
        dq, ds, de = torch.zeros_like(q), torch.zeros_like(s), torch.empty_like(e)
        for n, candidate in enumerate(e):
            sign = torch.addcmul(q, s, candidate, value=-1).sign_().mul_(upstream[:, n, None])
            dq += sign
            ds.addcmul_(sign, candidate, value=-1)
            de[n] = -(sign * s).sum(0)
        return dq, ds, de


class ComplexModulus(torch.autograd.Function):
    """distance[b, n] = Σ_i |q[b, i] − e[n, i]| over complex coordinates, stored as [real | imaginary] of width 2k."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, e: Tensor) -> Tensor:
        ctx.save_for_backward(q, e)
        distance = q.new_empty(len(q), len(e))
        for n, candidate in enumerate(e):
            real, imaginary = (q - candidate).chunk(2, -1)
            distance[:, n] = torch.hypot(real, imaginary).sum(-1)
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        q, e = ctx.saved_tensors
        (upstream,) = gradients
        dq, de = torch.zeros_like(q), torch.empty_like(e)
        for n, candidate in enumerate(e):
            real, imaginary = (q - candidate).chunk(2, -1)
            # At modulus zero the direction is undefined; zero is a valid subgradient, and what the sign gives in L1.
            inverse = upstream[:, n, None] / torch.hypot(real, imaginary).clamp_min_(torch.finfo(q.dtype).tiny)
            direction = torch.cat([real * inverse, imaginary * inverse], -1)
            dq += direction
            de[n] = -direction.sum(0)
        return dq, de


def scaled_l1_cross(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (N, k) → distances (B, N)."""
    result: Tensor = ScaledL1.apply(q, s, e)  # type: ignore[no-untyped-call]
    return result


def scaled_l1_pairs(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (B, k) → distances (B,), candidate i for query i."""
    return (q - s * e).abs().sum(-1)


def complex_modulus_cross(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (N, 2k) → distances (B, N)."""
    result: Tensor = ComplexModulus.apply(q, e)  # type: ignore[no-untyped-call]
    return result


def complex_modulus_pairs(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (B, 2k) → distances (B,)."""
    real, imaginary = (q - e).chunk(2, -1)
    # hypot's own gradient is NaN at zero; lifting the zeros by the smallest number keeps it finite.
    return (real.square() + imaginary.square()).clamp_min(torch.finfo(q.dtype).tiny).sqrt().sum(-1)


def squared_l2_cross(q: Tensor, e: Tensor) -> Tensor:
    """(B, k), (N, k) → ‖q − e‖² (B, N), by one matrix product."""
    return (q.square().sum(-1)[:, None] + e.square().sum(-1) - 2 * q @ e.T).clamp_min(0)


def squared_l2_pairs(q: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k) → ‖q − e‖² (B,)."""
    return (q - e).square().sum(-1)
