"""Rows of the big tables: which ones a batch needs, gathering them, updating them, and known answers in a pool."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from transher.kernels import gpu, native, reference
from transher.kernels.choice import back_end_of, chosen_for
from transher.kernels.known import Known
from transher.kernels.reference import Adam

# Numbers of a table that an optimiser passes over several times: on the CPU they stay in the processor's cache, 512 KB;
# on a GPU they are many enough to keep it busy, 64 MB.
_CACHED, _HELD = 1 << 17, 1 << 24
_SPARSE = 1 << 13  # ids of a table per id of a batch, beyond which sorting those of the batch is faster


def gather_rows(weight: Tensor, ids: Tensor, into: Tensor | None = None) -> Tensor:
    """weight: (n, k), ids: int64 (U,) → a copy of those rows (U, k), in `into` where it is given; no gradient flows."""
    module = chosen_for(weight)
    rows = weight.new_empty(len(ids), weight.shape[-1]) if into is None else into
    if module is None or not weight.is_contiguous():
        return torch.index_select(weight.detach(), 0, ids, out=rows)
    module.gather_rows(native.threads(), weight, _ids(ids), rows)
    return rows


@torch.no_grad()
def add_rows(first: Tensor, first_places: Tensor, second: Tensor, second_places: Tensor, count: int) -> Tensor:
    """first: (n, k) and second: (m, k), whose rows belong at places int64 (n,) and (m,), distinct in either → their sum
    (count, k). Where two rows meet or not, −0 becomes 0."""
    module = native.module if native.serves(first, second) else None
    if module is None:
        total = first.new_zeros(count, first.shape[1])
        return total.index_add_(0, first_places, first).index_add_(0, second_places, second)
    total = first.new_empty(count, first.shape[1])
    module.add_rows(
        native.threads(), first.contiguous(), _ids(first_places), second.contiguous(), _ids(second_places), total
    )
    return total


class Take(torch.autograd.Function):
    """Rows by a back end's gathering, and back by sums in a fixed order: atomic additions, as torch has them on GPUs,
    give other bits each time."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, ids: Tensor) -> Tensor:
        ctx.count = len(rows)
        ctx.save_for_backward(ids)
        return gather_rows(rows, ids)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (ids,) = ctx.saved_tensors
        total = gradients[0].new_empty(ctx.count, gradients[0].shape[1])
        assert gpu.module is not None
        gpu.module.sum_rows(gradients[0].contiguous(), ids, total)
        return total, None


def take_rows(rows: Tensor, ids: Tensor) -> Tensor:
    """rows: (n, k), ids: int64 (U,) → those rows (U, k), with their gradient."""
    if gpu.module is None or chosen_for(rows) is not gpu.module:
        return rows.index_select(0, ids)
    result: Tensor = Take.apply(rows.contiguous(), _ids(ids))  # type: ignore[no-untyped-call]
    return result


def sum_by(values: Tensor, ids: Tensor, count: int) -> Tensor:
    """values (n,), ids: int64 (n,), 0 … count − 1 → the sum of the values of each id (count,), in a fixed order."""
    total = values.new_zeros(count)
    if gpu.module is None or chosen_for(values) is not gpu.module:
        return total.index_add_(0, ids, values)
    gpu.module.sum_rows(values[:, None].contiguous(), _ids(ids), total[:, None])
    return total


@torch.no_grad()
def adam_rows(weight: Tensor, m: Tensor, v: Tensor, ids: Tensor, gradient: Tensor, adam: Adam) -> None:
    """One step of Adam in place on the rows `ids` (U,), which must be distinct. weight and its moments m, v: (n, k),
    gradient: (U, k)."""
    tables = (weight, m, v)
    module = chosen_for(*tables, gradient)
    if module is None or not all(table.is_contiguous() for table in tables):
        reference.adam_rows(weight, m, v, ids, gradient, adam)
        return
    lr, beta1, beta2, eps, step = adam
    rate, root_correction = lr / (1 - beta1**step), 1 / math.sqrt(1 - beta2**step)
    module.adam_rows(
        native.threads(), weight, m, v, _ids(ids), gradient.contiguous(), rate, beta1, beta2, eps, root_correction
    )


@torch.no_grad()
def adagrad_rows(
    weight: Tensor, total: Tensor, ids: Tensor | None, gradient: Tensor, lr: float, epsilon: float
) -> None:
    """One step of Adagrad in place on the rows `ids` (U,), which must be distinct, or on all. weight and its sum of
    squared gradients: (n, k), gradient: (U, k)."""
    if ids is not None:
        total.index_add_(0, ids, gradient.square())
        step = gradient / total.index_select(0, ids).sqrt_().add_(epsilon)
        weight.index_add_(0, ids, step, alpha=-lr)
        return
    size = max(1, (_CACHED if weight.device.type == "cpu" else _HELD) // max(1, weight.shape[1]))
    for rows in zip(weight.split(size), total.split(size), gradient.split(size), strict=True):
        part, squares, slope = rows
        squares.addcmul_(slope, slope)
        part.addcdiv_(slope, squares.sqrt().add_(epsilon), value=-lr)


@torch.no_grad()
def unit_rows(weight: Tensor, ids: Tensor) -> None:
    """Brings the rows `ids` (U,), which must be distinct, of weight (n, k) to length 1, in place."""
    module = chosen_for(weight)
    if module is None or not weight.is_contiguous():
        weight[ids] = torch.nn.functional.normalize(weight[ids])
        return
    module.unit_rows(native.threads(), weight, _ids(ids))


def distinct(ids: Tensor, bound: int) -> tuple[Tensor, Tensor]:
    """ids: int64 (n,), 0 … bound − 1 → the distinct ones, ascending (U,), and the place of each id among them (n,)."""
    # Natively, the cost grows with the bound: a bit for every id.
    if native.module is None or ids.device.type != "cpu" or bound > _SPARSE * len(ids):
        found, places = torch.unique(ids, return_inverse=True)
        return found, places
    ids = _ids(ids)
    found, places = torch.empty_like(ids), torch.empty_like(ids)
    return found[: native.module.distinct(ids, bound, found, places)], places


def mask_known(valid: Tensor, negatives: Tensor, known: Known) -> None:
    """Sets valid[b, n], bool (B, N), to False in place where negatives[n] is a known answer of query b.
    negatives: int64 (N,), the pool that all queries share."""
    known = known.checked()
    module = back_end_of(valid.device)
    if module is None or not valid.is_contiguous():
        reference.mask_known(valid, negatives, known)
        return
    module.mask_known(valid, _ids(negatives), known.starts, known.ends, known.ids)


def _ids(ids: Tensor) -> Tensor:
    return ids.to(torch.int64).contiguous()
