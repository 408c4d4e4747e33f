"""The kernels in plain torch: the truth that tests compare with, and what runs where there is no native module.

Shapes: a query part is (B, k), candidates are (N, k) for `cross` and (B, k) for `pairs`; scores are (B, N) and (B,).
None of these functions ever holds a (B, N, k) tensor, neither forward nor for the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


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


def self_adversarial(positive: Tensor, negative: Tensor, valid: Tensor | None, weights: Tensor, alpha: float) -> Tensor:
    """(L⁺ + L⁻)/2 with L⁺ = −Σ w_i log σ(f_i)/Σ w_i and L⁻ = −Σ w_i Σ_j p_ij log σ(−f_ij)/Σ w_i; p is a softmax of
    α f over the valid negatives and takes no gradient. positive, weights: (B,), negative, valid: (B, N)."""
    logits = alpha * negative.detach()
    if valid is not None:
        logits = logits.masked_fill(~valid, -torch.inf)
    p = logits.softmax(1)
    if valid is not None:
        p = p.masked_fill(~valid, 0)  # a row without any valid negative is NaN until here
    per_positive = logsigmoid(positive) + (p * logsigmoid(-negative)).sum(1)
    return -(weights * per_positive).sum() / (2 * weights.sum())


def adam_rows(
    weight: Tensor,
    m: Tensor,
    v: Tensor,
    ids: Tensor,
    gradient: Tensor,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    step: int,
) -> None:
    """One Adam step on the distinct rows `ids` of weight, m and v (rows, width), in place; gradient: (U, width)."""
    m_rows = m.index_select(0, ids).mul_(beta1).add_(gradient, alpha=1 - beta1)
    v_rows = v.index_select(0, ids).mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    m.index_copy_(0, ids, m_rows)
    v.index_copy_(0, ids, v_rows)
    scale = (1 - beta2**step) ** 0.5
    change = m_rows.div_(v_rows.sqrt_().add_(epsilon * scale)).mul_(-lr * scale / (1 - beta1**step))
    weight.index_add_(0, ids, change)


def gather_rows(weight: Tensor, ids: Tensor) -> Tensor:
    """The rows `ids` of weight, (U, width)."""
    return weight.index_select(0, ids)


def mask_known(negatives: Tensor, offsets: Tensor, answers: Tensor) -> Tensor:
    """Which negatives are no known answers, (B, N). negatives: distinct entity ids (N,); the known answers of positive
    b are answers[offsets[b]:offsets[b + 1]]."""
    ordered, order = negatives.sort()
    place = torch.searchsorted(ordered, answers.to(ordered.dtype)).clamp_max_(len(ordered) - 1)
    hit = ordered[place] == answers
    row = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    valid = torch.ones(len(offsets) - 1, len(negatives), dtype=torch.bool)
    valid[row[hit], order[place[hit]]] = False
    return valid
