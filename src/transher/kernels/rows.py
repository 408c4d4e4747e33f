"""Rows of the big tables: gathering them, updating them in place with Adam, and masking known answers in a pool."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from transher.kernels import native, reference
from transher.kernels.known import Known


def gather_rows(weight: Tensor, ids: Tensor) -> Tensor:
    """weight: (n, k), ids: int64 (U,) → a copy of those rows (U, k); no gradient flows."""
    if not native.serves(weight) or not weight.is_contiguous():
        return weight.detach()[ids]
    ids = _ids(ids)
    rows = torch.empty(len(ids), weight.shape[1])
    native.module.gather_rows(
        native.threads(), weight.data_ptr(), ids.data_ptr(), len(weight), len(ids), 4 * weight.shape[1], rows.data_ptr()
    )
    return rows


@torch.no_grad()
def adam_rows(
    weight: Tensor, m: Tensor, v: Tensor, ids: Tensor, gradient: Tensor, lr: float, beta1: float, beta2: float,
    eps: float, step: int,
) -> None:  # fmt: skip
    """One step of Adam in place on the rows `ids` (U,), which must be distinct. weight and its moments m, v: (n, k),
    gradient: (U, k). `step` counts from 1 over all steps, whichever rows they touched: it sets the bias correction."""
    tables = (weight, m, v)
    if not native.serves(*tables, gradient) or not all(table.is_contiguous() for table in tables):
        reference.adam_rows(weight, m, v, ids, gradient, lr, beta1, beta2, eps, step)
        return
    ids, gradient = _ids(ids), gradient.contiguous()
    if not weight.shape == m.shape == v.shape or gradient.shape != (len(ids), weight.shape[1]):
        raise ValueError(f"gradient {tuple(gradient.shape)} does not fit {len(ids)} rows of {tuple(weight.shape)}.")
    native.module.adam_rows(
        native.threads(), weight.data_ptr(), m.data_ptr(), v.data_ptr(), ids.data_ptr(), gradient.data_ptr(),
        len(weight), *gradient.shape, lr / (1 - beta1**step), beta1, beta2, eps, 1 / math.sqrt(1 - beta2**step),
    )  # fmt: skip


@torch.no_grad()
def unit_rows(weight: Tensor, ids: Tensor) -> None:
    """Brings the rows `ids` (U,), which must be distinct, of weight (n, k) to length 1, in place."""
    if not native.serves(weight) or not weight.is_contiguous():
        weight[ids] = torch.nn.functional.normalize(weight[ids])
        return
    ids = _ids(ids)
    native.module.unit_rows(native.threads(), weight.data_ptr(), ids.data_ptr(), len(weight), len(ids), weight.shape[1])


def mask_known(valid: Tensor, negatives: Tensor, known: Known) -> None:
    """Sets valid[b, n], bool (B, N), to False in place where negatives[n] is a known answer of query b.
    negatives: int64 (N,), the pool that all queries share."""
    known = known.checked()
    if native.module is None or valid.device.type != "cpu" or not valid.is_contiguous():
        reference.mask_known(valid, negatives, known)
        return
    negatives, count = _ids(negatives), len(known.starts)
    if valid.dtype != torch.bool or valid.shape != (count, len(negatives)) or len(known.ends) != count:
        raise ValueError(f"valid is {valid.dtype} {tuple(valid.shape)}, not bool {(count, len(negatives))}.")
    native.module.mask_known(
        native.threads(), valid.data_ptr(), negatives.data_ptr(), *valid.shape, known.starts.data_ptr(),
        known.ends.data_ptr(), known.ids.data_ptr(), len(known.ids),
    )  # fmt: skip


def _ids(ids: Tensor) -> Tensor:
    return ids.to(torch.int64).contiguous()
