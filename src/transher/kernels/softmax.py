"""Cross-entropy of dot products over every candidate, with its gradients, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch
from torch import Tensor

# Scores that are held at a time, 64 MB: a batch of queries that has more is worked on in parts.
SCORES_HELD = 1 << 24


# oneDNN compiles a product of bfloat16 anew for every shape, which takes longer than the product itself. The numbers of
# queries that it meets are multiples of this many or, where fewer are held at a time, always as many as these.
_ROWS = 64

Precision = Literal["float32", "tf32", "bfloat16"]


class SoftmaxGradients(NamedTuple):
    loss: float
    query: Tensor  # (B, d)
    candidates: Tensor  # (N, d), in the room: another call writes over it


class Room:
    """Memory for large tensors that every step uses again. Taken anew each time, its pages would have to be mapped and
    filled with zeros, which took a quarter of a step."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def empty(self, name: str, rows: int, columns: int, like: Tensor, dtype: torch.dtype) -> Tensor:
        """A tensor (rows, columns) on the device of `like`, with whatever was in it before."""
        kept, size = self._kept.get(name), rows * columns
        if kept is None or len(kept) < size or kept.dtype != dtype or kept.device != like.device:
            kept = self._kept[name] = like.new_empty(size, dtype=dtype)
        return kept[:size].view(rows, columns)


@contextmanager
def _multiplying(device: torch.device, precision: Precision) -> Iterator[None]:
    """On GPUs, products of float32 within take the digits of tf32 if that is the precision, and all of them if not; and
    those of bfloat16 add up in float32, also where a GPU shares a long sum among its processors."""
    if device.type != "cuda":
        yield
        return
    matmul = torch.backends.cuda.matmul
    before = torch.get_float32_matmul_precision(), matmul.allow_bf16_reduced_precision_reduction
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    matmul.allow_bf16_reduced_precision_reduction = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        matmul.allow_bf16_reduced_precision_reduction = before[1]


@torch.no_grad()
def softmax_gradients(
    query: Tensor,
    candidates: Tensor,
    offsets: Tensor,
    answers: Tensor,
    weights: Tensor,
    precision: Precision = "float32",
    held: int = SCORES_HELD,
    room: Room | None = None,
) -> SoftmaxGradients:
    """Σ w_a (log Σ_j exp(q·e_j) − q·e_a) over all answers a of every query, and its gradients.

    query: (B, d), candidates: (N, d); answers: rows of candidates (T,), those of query b from offsets[b] to
    offsets[b + 1], at least one and none twice; offsets: (B + 1,); weights: (T,), positive. The gradient of
    a score is known as soon as all scores of its query are: some queries at a time, with `held` scores together, go
    through all three matrix products, and nothing is computed twice. The products take numbers of `precision`
    and add up in float32; tf32 is float32 but on GPUs, where it has the digits of bfloat16 and three more bits.
    """
    room, half = room or Room(), precision == "bfloat16"
    kind = torch.bfloat16 if half else query.dtype
    count, width = candidates.shape
    table = candidates
    if half:
        table = room.empty("table", count, width, query, kind).copy_(candidates)
    counts = offsets.diff()
    totals = torch.segment_reduce(weights, "sum", lengths=counts)
    loss = 0.0
    d_query, d_candidates = torch.empty_like(query), room.empty("gradient", count, width, query, query.dtype)
    if not len(query):
        d_candidates.zero_()
    size = max(1, held // max(1, count))
    multiple = min(_ROWS, size) if half else 1
    size -= size % multiple
    with _multiplying(query.device, precision):
        for first in range(0, len(query), size):
            part = slice(first, min(first + size, len(query)))
            own = slice(int(offsets[first]), int(offsets[part.stop]))
            asked, share = query[part], weights[own]
            rows = -(-len(asked) // multiple) * multiple
            narrow = room.empty("narrow", rows, count, query, kind)
            torch.mm(_padded(asked, rows, kind, room), table.T, out=narrow)
            shares = narrow
            if half:
                shares = room.empty("shares", len(asked), count, query, query.dtype).copy_(narrow[: len(asked)])
            torch.softmax(shares, 1, out=shares)
            owner = torch.repeat_interleave(torch.arange(len(asked), device=query.device), counts[part])
            places, flat = owner * count + answers[own], shares.view(-1)
            right = flat[places]
            # A share that underflowed to 0 costs a finite number; NaN stays NaN, and the training tells.
            loss -= float((share * right.clamp_min(torch.finfo(right.dtype).tiny).log()).sum())
            # The gradient of the scores, but for the factor `total` of each query, which goes into the narrow operand.
            total = totals[part, None]
            flat[places] = right - share / totals[part][owner]
            if half:
                narrow[: len(asked)] = shares
                narrow[len(asked) :] = 0
            d_query[part] = (narrow @ table)[: len(asked)]
            d_query[part] *= total
            _add_product(d_candidates, narrow.T, _padded(asked * total, rows, kind, room), first == 0, room)
    return SoftmaxGradients(loss, d_query, d_candidates)


def _padded(values: Tensor, rows: int, kind: torch.dtype, room: Room) -> Tensor:
    """Values (n, d) as `kind`, with zeros below up to so many rows."""
    if kind == values.dtype and len(values) == rows:
        return values
    padded = room.empty("padded", rows, values.shape[1], values, kind)
    padded[: len(values)] = values
    padded[len(values) :] = 0
    return padded


def _add_product(out: Tensor, left: Tensor, right: Tensor, anew: bool, room: Room) -> None:
    """Add left @ right to `out`, or write it there."""
    if right.dtype == out.dtype:
        torch.addmm(out, left, right, beta=0 if anew else 1, out=out)
        return
    found = torch.mm(left, right, out=room.empty("product", len(out), out.shape[1], out, right.dtype))
    out.copy_(found) if anew else out.add_(found)


def has_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16 faster than those of float32."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # torch has no public way to ask
    return bool(supported is not None and supported())
