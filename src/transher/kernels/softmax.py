"""Cross-entropy of dot products over every candidate, with its gradients, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch
from torch import Tensor

# Scores that are held at a time, 64 MB: a batch of queries that has more is worked on in parts.
SCORES_HELD = 1 << 24


Precision = Literal["float32", "tf32", "bfloat16"]


class SoftmaxGradients(NamedTuple):
    loss: float
    query: Tensor  # (B, d)
    candidates: Tensor  # (N, d)


@contextmanager
def _multiplying(device: torch.device, precision: Precision) -> Iterator[None]:
    """On GPUs, products of float32 within take the digits of tf32 if that is the precision, and all of them if not."""
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@torch.no_grad()
def softmax_gradients(
    query: Tensor,
    candidates: Tensor,
    offsets: Tensor,
    answers: Tensor,
    weights: Tensor,
    precision: Precision = "float32",
    held: int = SCORES_HELD,
) -> SoftmaxGradients:
    """Σ w_a (log Σ_j exp(q·e_j) − q·e_a) over all answers a of every query, and its gradients.

    query: (B, d), candidates: (N, d); answers: rows of candidates (T,), those of query b from offsets[b] to
    offsets[b + 1], at least one and none twice; offsets: (B + 1,); weights: (T,), positive. The gradient of
    a score is known as soon as all scores of its query are: some queries at a time, with `held` scores together, go
    through all three matrix products, and nothing is computed twice. The products take numbers of `precision`
    and add up in float32; tf32 is float32 but on GPUs, where it has the digits of bfloat16 and three more bits.
    """
    half = precision == "bfloat16"
    count, width = len(candidates), candidates.shape[1]
    table = candidates.to(torch.bfloat16) if half else candidates
    counts = offsets.diff()
    totals = torch.segment_reduce(weights, "sum", lengths=counts)
    loss = 0.0
    d_query, d_candidates = torch.empty_like(query), None
    size = max(1, min(len(query), held // max(1, count)))
    scores = query.new_empty(size, count)
    with _multiplying(query.device, precision):
        for first in range(0, len(query), size):
            part = slice(first, min(first + size, len(query)))
            own = slice(int(offsets[first]), int(offsets[part.stop]))
            asked, share = query[part], weights[own]
            shares = scores[: len(asked)]
            _product(asked, table.T, shares)
            torch.softmax(shares, 1, out=shares)
            owner = torch.repeat_interleave(torch.arange(len(asked), device=query.device), counts[part])
            places, flat = owner * count + answers[own], shares.view(-1)
            right = flat[places]
            # A share that underflowed to 0 costs a finite number; NaN stays NaN, and the training tells.
            loss -= float((share * right.clamp_min(torch.finfo(right.dtype).tiny).log()).sum())
            # The gradient of the scores, but for the factor `total` of each query, which goes into the narrow operand.
            total = totals[part, None]
            flat[places] = right - share / totals[part][owner]
            gradient = shares.to(torch.bfloat16) if half else shares
            _product(gradient, table, d_query[part])
            d_query[part] *= total
            found = gradient.T @ (asked * total).to(gradient.dtype)
            if d_candidates is None:  # the only part of most batches: nothing is filled with zeros and added to
                d_candidates = found.to(query.dtype)
            else:
                d_candidates += found
    return SoftmaxGradients(loss, d_query, query.new_zeros(count, width) if d_candidates is None else d_candidates)


def has_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16 faster than those of float32."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # torch has no public way to ask
    return bool(supported is not None and supported())


def _product(left: Tensor, right: Tensor, out: Tensor) -> None:
    """left @ right into `out`, in the precision of `right`."""
    if right.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left.to(right.dtype) @ right)
