"""Distances of B queries to N candidates (`cross`) or to one candidate each (`pairs`): native where it serves.

The native `cross` and `pairs` add up in the same order, so a pair's distance has the same bits in both: ties are ties.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from transher.kernels import native, reference
from transher.kernels.pools import run_length


class ScaledL1Cross(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, s: Tensor, e: Tensor) -> Tensor:
        q, s, e = q.contiguous(), s.contiguous(), e.contiguous()
        ctx.save_for_backward(q, s, e)
        distance = q.new_empty(len(q), len(e))
        native.module.scaled_l1_cross(
            native.threads(), q.data_ptr(), s.data_ptr(), e.data_ptr(), len(q), *e.shape, distance.data_ptr()
        )
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, s, e = ctx.saved_tensors
        g = gradients[0].contiguous()
        dq, ds, de = torch.empty_like(q), torch.empty_like(s), torch.empty_like(e)
        native.module.scaled_l1_backward(
            native.threads(), q.data_ptr(), s.data_ptr(), e.data_ptr(), g.data_ptr(), len(q), *e.shape,
            dq.data_ptr(), ds.data_ptr(), de.data_ptr(),
        )  # fmt: skip
        return dq, ds, de


class ScaledL1Pairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, s: Tensor, e: Tensor) -> Tensor:
        q, s, e = q.contiguous(), s.contiguous(), e.contiguous()
        ctx.save_for_backward(q, s, e)
        distance = q.new_empty(len(q))
        native.module.scaled_l1_pairs(
            native.threads(), q.data_ptr(), s.data_ptr(), e.data_ptr(), *q.shape, distance.data_ptr()
        )
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, s, e = ctx.saved_tensors
        g = gradients[0].contiguous()
        dq, ds, de = torch.empty_like(q), torch.empty_like(s), torch.empty_like(e)
        native.module.scaled_l1_pairs_backward(
            native.threads(), q.data_ptr(), s.data_ptr(), e.data_ptr(), g.data_ptr(), *q.shape,
            dq.data_ptr(), ds.data_ptr(), de.data_ptr(),
        )  # fmt: skip
        return dq, ds, de


class ScaledL1Listed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, s: Tensor, e: Tensor, ids: Tensor) -> Tensor:
        q, s, e, ids = q.contiguous(), s.contiguous(), e.contiguous(), ids.contiguous()
        ctx.save_for_backward(q, s, e, ids)
        distance = q.new_empty(ids.shape)
        native.module.scaled_l1_listed(
            native.threads(), q.data_ptr(), s.data_ptr(), e.data_ptr(), ids.data_ptr(), *ids.shape, *e.shape,
            distance.data_ptr(),
        )  # fmt: skip
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, s, e, ids = ctx.saved_tensors
        g = gradients[0].contiguous()
        dq, ds, de = torch.empty_like(q), torch.empty_like(s), torch.empty_like(e)
        native.module.scaled_l1_listed_backward(
            native.threads(), q.data_ptr(), s.data_ptr(), e.data_ptr(), ids.data_ptr(), g.data_ptr(), *ids.shape,
            *e.shape, dq.data_ptr(), ds.data_ptr(), de.data_ptr(),
        )  # fmt: skip
        return dq, ds, de, None


class ComplexModulusCross(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, e: Tensor, ids: Tensor | None) -> Tensor:
        q, e = q.contiguous(), e.contiguous()
        ids = None if ids is None else ids.contiguous()
        ctx.save_for_backward(q, e, ids)
        ctx.sizes = len(q), *((1, len(e)) if ids is None else ids.shape), q.shape[1] // 2
        distance = q.new_empty(len(q), ctx.sizes[2])
        native.module.complex_modulus_cross(
            native.threads(), q.data_ptr(), e.data_ptr(), len(e), 0 if ids is None else ids.data_ptr(), *ctx.sizes,
            distance.data_ptr(),
        )  # fmt: skip
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        q, e, ids = ctx.saved_tensors
        g = gradients[0].contiguous()
        dq, de = torch.empty_like(q), torch.zeros_like(e)
        native.module.complex_modulus_backward(
            native.threads(), q.data_ptr(), e.data_ptr(), 0 if ids is None else ids.data_ptr(), g.data_ptr(),
            *ctx.sizes, dq.data_ptr(), de.data_ptr(),
        )  # fmt: skip
        return dq, de, None


class ComplexModulusPairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, e: Tensor) -> Tensor:
        q, e = q.contiguous(), e.contiguous()
        ctx.save_for_backward(q, e)
        distance = q.new_empty(len(q))
        native.module.complex_modulus_pairs(
            native.threads(), q.data_ptr(), e.data_ptr(), len(q), q.shape[1] // 2, distance.data_ptr()
        )
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        q, e = ctx.saved_tensors
        g = gradients[0].contiguous()
        dq, de = torch.empty_like(q), torch.empty_like(e)
        native.module.complex_modulus_pairs_backward(
            native.threads(), q.data_ptr(), e.data_ptr(), g.data_ptr(), len(q), q.shape[1] // 2, dq.data_ptr(),
            de.data_ptr(),
        )  # fmt: skip
        return dq, de


def scaled_l1_cross(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (N, k) → distances (B, N): Σ_i |q[b, i] − s[b, i]·e[n, i]|."""
    if not native.serves(q, s, e):
        return reference.scaled_l1_cross(q, s, e)
    _check(q.ndim == e.ndim == 2 and q.shape == s.shape and q.shape[1] == e.shape[1], "scaled_l1_cross", q, s, e)
    result: Tensor = ScaledL1Cross.apply(q, s, e)  # type: ignore[no-untyped-call]
    return result


def scaled_l1_pairs(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (B, k) → distances (B,), candidate i for query i."""
    if not native.serves(q, s, e):
        return reference.scaled_l1_pairs(q, s, e)
    _check(q.ndim == 2 and q.shape == s.shape == e.shape, "scaled_l1_pairs", q, s, e)
    result: Tensor = ScaledL1Pairs.apply(q, s, e)  # type: ignore[no-untyped-call]
    return result


def scaled_l1_listed(q: Tensor, s: Tensor, e: Tensor, ids: Tensor) -> Tensor:
    """(B, k), (B, k), (U, k), int64 (B, N) → distances (B, N) of query b to row ids[b, n] of e."""
    if not native.serves(q, s, e):
        return reference.scaled_l1_listed(q, s, e, ids)
    fits = q.ndim == e.ndim == ids.ndim == 2 and q.shape == s.shape and q.shape[1] == e.shape[1]
    _check(fits and len(ids) == len(q) and ids.dtype == torch.int64, "scaled_l1_listed", q, s, e, ids)
    result: Tensor = ScaledL1Listed.apply(q, s, e, ids)  # type: ignore[no-untyped-call]
    return result


def complex_modulus_cross(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (N, 2k), rows [real | imaginary] → distances (B, N): Σ_i |q[b, i] − e[n, i]|."""
    if not native.serves(q, e):
        return reference.complex_modulus_cross(q, e)
    _check(q.ndim == e.ndim == 2 and q.shape[1] == e.shape[1] and q.shape[1] % 2 == 0, "complex_modulus_cross", q, e)
    result: Tensor = ComplexModulusCross.apply(q, e, None)  # type: ignore[no-untyped-call]
    return result


def complex_modulus_pools(q: Tensor, e: Tensor, ids: Tensor) -> Tensor:
    """(B, 2k), (U, 2k), int64 (P, N) → distances (B, N) of query b to rows ids[b // ⌈B/P⌉] of e, read in place."""
    if not native.serves(q, e):
        return reference.complex_modulus_pools(q, e, ids)
    fits = q.ndim == e.ndim == ids.ndim == 2 and q.shape[1] == e.shape[1] and q.shape[1] % 2 == 0
    _check(fits and ids.dtype == torch.int64, "complex_modulus_pools", q, e, ids)
    run_length(len(q), len(ids))
    result: Tensor = ComplexModulusCross.apply(q, e, ids)  # type: ignore[no-untyped-call]
    return result


def complex_modulus_pairs(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (B, 2k) → distances (B,), candidate i for query i."""
    if not native.serves(q, e):
        return reference.complex_modulus_pairs(q, e)
    _check(q.ndim == 2 and q.shape == e.shape and q.shape[1] % 2 == 0, "complex_modulus_pairs", q, e)
    result: Tensor = ComplexModulusPairs.apply(q, e)  # type: ignore[no-untyped-call]
    return result


def _check(fits: bool, name: str, *tensors: Tensor) -> None:
    if not fits:
        raise ValueError(f"{name} does not take shapes {', '.join(str(tuple(t.shape)) for t in tensors)}.")
