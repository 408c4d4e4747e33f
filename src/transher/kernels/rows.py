"""Rows of the big tables: gathering them, updating them in place with Adam, and masking known answers in a pool."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from transher.kernels import native, reference


def gather_rows(weight: Tensor, ids: Tensor) -> Tensor:
    """weight: (n, k), ids: int64 (U,) → a copy of those rows (U, k); no gradient flows."""
    if not native.serves(weight) or not weight.is_contiguous():
        return weight.detach()[ids]
    ids = _ids(ids)
    rows = torch.empty(len(ids), weight.shape[1])
    native.module.gather_rows(  # type: ignore[union-attr]
        native.threads(), weight.data_ptr(), ids.data_ptr(), len(weight), len(ids), 4 * weight.shape[1], rows.data_ptr()
    )
    return rows


@torch.no_grad()
def adam_rows(
    weight: Tensor, m: Tensor, v: Tensor, ids: Tensor, gradient: Tensor, lr: float, beta1: float, beta2: float, eps: float,
    step: int,
) -> None:  # fmt: skip
    """One step of Adam in place on the rows `ids` (U,), which must be distinct. weight and its moments m, v: (n, k),
    gradient: (U, k). `step` counts from 1 over all steps, whichever rows they touched: it sets the bias correction."""
    tables = (weight, m, v)
    if not native.serves(*tables, gradient) or not all(table.is_contiguous() for table in tables):
        return reference.adam_rows(weight, m, v, ids, gradient, lr, beta1, beta2, eps, step)
    ids, gradient = _ids(ids), gradient.contiguous()
    if not weight.shape == m.shape == v.shape or gradient.shape != (len(ids), weight.shape[1]):
        raise ValueError(f"gradient {tuple(gradient.shape)} does not fit {len(ids)} rows of {tuple(weight.shape)}.")
    native.module.adam_rows(  # type: ignore[union-attr]
        native.threads(), weight.data_ptr(), m.data_ptr(), v.data_ptr(), ids.data_ptr(), gradient.data_ptr(),
        len(weight), *gradient.shape, lr / (1 - beta1**step), beta1, beta2, eps, 1 / math.sqrt(1 - beta2**step),
    )  # fmt: skip


def mask_known(valid: Tensor, negatives: Tensor, starts: Tensor, ends: Tensor, answers: Tensor) -> None:
    """Sets valid[b, n], bool (B, N), to False in place where negatives[n] is among answers[starts[b]:ends[b]].

    negatives: int64 (N,); starts, ends: int64 (B,) into answers: int32, so that a batch can point into the index of all
    known answers without copying any of it."""
    if native.module is None or valid.device.type != "cpu" or not valid.is_contiguous():
        return reference.mask_known(valid, negatives, starts, ends, answers)
    negatives, starts, ends, answers = _ids(negatives), _ids(starts), _ids(ends), answers.int().contiguous()
    if valid.dtype != torch.bool or valid.shape != (len(starts), len(negatives)) or len(starts) != len(ends):
        raise ValueError(f"valid is {valid.dtype} {tuple(valid.shape)}, not bool {(len(starts), len(negatives))}.")
    native.module.mask_known(
        native.threads(), valid.data_ptr(), negatives.data_ptr(), *valid.shape, starts.data_ptr(), ends.data_ptr(),
        answers.data_ptr(), len(answers),
    )  # fmt: skip
    return None


def _ids(ids: Tensor) -> Tensor:
    return ids.to(torch.int64).contiguous()
