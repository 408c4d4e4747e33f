"""Distances of B queries to N candidates (`cross`) or to one candidate each (`pairs`), by the back end of their device.

On the CPU's and the GPU's back end `cross` and `pairs` add up in the same order, so a pair's distance has the same bits
in both: ties are ties.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transher.kernels import native, reference
from transher.kernels.choice import chosen_for
from transher.kernels.interface import Backward, Forward, Kernels, Tensors
from transher.kernels.pools import run_length


class _Kernel(NamedTuple):
    """A distance and its gradient, in a back end."""

    forward: Callable[[Kernels], Forward]
    backward: Callable[[Kernels], Backward]


_SCALED_L1 = _Kernel(lambda module: module.scaled_l1_cross, lambda module: module.scaled_l1_backward)
_SCALED_L1_PAIRS = _Kernel(lambda module: module.scaled_l1_pairs, lambda module: module.scaled_l1_pairs_backward)
_MODULUS = _Kernel(lambda module: module.complex_modulus_cross, lambda module: module.complex_modulus_backward)
_MODULUS_PAIRS = _Kernel(
    lambda module: module.complex_modulus_pairs, lambda module: module.complex_modulus_pairs_backward
)


class Distance(torch.autograd.Function):
    """Any distance of the parts of a query to rows of e, by a back end."""

    @staticmethod
    def forward(
        ctx: Any,
        module: Kernels,
        kernel: _Kernel,
        shape: tuple[int, ...],
        ids: Tensor | None,
        e: Tensor,
        *query: Tensor,
    ) -> Tensor:
        e, query = e.contiguous(), tuple(part.contiguous() for part in query)
        ids = None if ids is None else ids.contiguous()
        ctx.backward_kernel = kernel.backward(module)
        ctx.save_for_backward(ids, e, *query)  # raises if ids, which are checked here, or rows are changed in between
        distance = e.new_empty(shape)
        kernel.forward(module)(native.threads(), query, e, ids, distance)
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ids, e, *query = ctx.saved_tensors
        de, d_query = torch.empty_like(e), tuple(torch.empty_like(part) for part in query)
        ctx.backward_kernel(native.threads(), tuple(query), e, ids, gradients[0].contiguous(), d_query, de)
        return None, None, None, None, de, *d_query


def _distance(module: Kernels, kernel: _Kernel, query: Tensors, e: Tensor, ids: Tensor | None, *shape: int) -> Tensor:
    result: Tensor = Distance.apply(module, kernel, shape, ids, e, *query)  # type: ignore[no-untyped-call]
    return result


def scaled_l1_cross(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (N, k) → distances (B, N): Σ_i |q[b, i] − s[b, i]·e[n, i]|."""
    module = chosen_for(q, s, e)
    if module is None:
        return reference.scaled_l1_cross(q, s, e)
    return _distance(module, _SCALED_L1, (q, s), e, None, len(q), len(e))


def scaled_l1_pairs(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (B, k) → distances (B,), candidate i for query i."""
    module = chosen_for(q, s, e)
    if module is None:
        return reference.scaled_l1_pairs(q, s, e)
    return _distance(module, _SCALED_L1_PAIRS, (q, s), e, None, len(q))


def scaled_l1_listed(q: Tensor, s: Tensor, e: Tensor, ids: Tensor) -> Tensor:
    """(B, k), (B, k), (U, k), int64 (B, N) → distances (B, N) of query b to row ids[b, n] of e."""
    module = chosen_for(q, s, e)
    if module is None:
        return reference.scaled_l1_listed(q, s, e, ids)
    return _distance(module, _SCALED_L1, (q, s), e, ids, *ids.shape)


def complex_modulus_cross(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (N, 2k), rows [real | imaginary] → distances (B, N): Σ_i |q[b, i] − e[n, i]|."""
    module = chosen_for(q, e)
    if module is None:
        return reference.complex_modulus_cross(q, e)
    return _distance(module, _MODULUS, (q,), e, None, len(q), len(e))


def complex_modulus_pools(q: Tensor, e: Tensor, ids: Tensor) -> Tensor:
    """(B, 2k), (U, 2k), int64 (P, N) → distances (B, N) of query b to rows of e in its pool, read in place."""
    module = chosen_for(q, e)
    if module is None:
        return reference.complex_modulus_pools(q, e, ids)
    run_length(len(q), len(ids))
    return _distance(module, _MODULUS, (q,), e, ids, len(q), ids.shape[-1])


def complex_modulus_pairs(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (B, 2k) → distances (B,), candidate i for query i."""
    module = chosen_for(q, e)
    if module is None:
        return reference.complex_modulus_pairs(q, e)
    return _distance(module, _MODULUS_PAIRS, (q,), e, None, len(q))
