"""Scores of a training batch of a scaled-L1 model as one differentiable operation, from raw rows to scores and back.

Each distinct row is normalised once, and nothing of size (B, k) is kept but the packed queries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from transher.kernels import native
from transher.kernels.pools import run_length


class Columns(NamedTuple):
    """Where a relation's row, asked for one side, holds the parts of q = sign·translation + multiplier∘anchor and of s:
    the first column of each, None where the model has none (multiplier and scale are then 1, the translation 0)."""

    multiplier: int | None
    scale: int | None
    translation: int | None
    sign: float  # +1 or −1, of the translation
    normalised: bool  # whether entities are seen as ê = e/‖e‖


class _Lease:
    """A workspace for as long as an autograd graph lives, then back on the shelf: fresh memory costs page faults."""

    shelf: list[Any] = []  # noqa: RUF012 - shared on purpose; list.pop and list.append are atomic

    def __init__(self) -> None:
        try:
            self.workspace = self.shelf.pop()
        except IndexError:
            self.workspace = native.module.Workspace()

    def __del__(self) -> None:
        self.shelf.append(self.workspace)


class ScaledL1Batch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, entity_rows: Tensor, relation_rows: Tensor, indices: tuple[Tensor, ...], keep: Tensor | None,
        columns: Columns, gamma: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        entity_rows, relation_rows = entity_rows.contiguous(), relation_rows.contiguous()
        anchors, _, _, negatives = indices
        ctx.batch = native.module.Batch(
            [t.data_ptr() for t in (entity_rows, relation_rows, *indices)] + [0 if keep is None else keep.data_ptr()],
            [len(entity_rows), len(relation_rows), len(anchors), *negatives.shape, entity_rows.shape[1],
             relation_rows.shape[1]],
            [-1 if column is None else column for column in columns[:3]],
            columns.sign, gamma, columns.normalised,
        )  # fmt: skip
        ctx.lease = _Lease()
        ctx.alive = (entity_rows, relation_rows, indices, keep)  # the batch holds their addresses
        ctx.save_for_backward(entity_rows, relation_rows)
        positive = entity_rows.new_empty(len(anchors))
        negative = entity_rows.new_empty(len(anchors), negatives.shape[1])
        native.module.batch_forward(
            native.threads(), ctx.batch, ctx.lease.workspace, positive.data_ptr(), negative.data_ptr()
        )
        return positive, negative

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        entity_rows, relation_rows = ctx.saved_tensors  # raises if a row was changed in place since
        d_positive, d_negative = (gradient.contiguous() for gradient in gradients)
        d_entity_rows, d_relation_rows = torch.empty_like(entity_rows), torch.empty_like(relation_rows)
        native.module.batch_backward(
            native.threads(), ctx.batch, ctx.lease.workspace, d_positive.data_ptr(), d_negative.data_ptr(),
            d_entity_rows.data_ptr(), d_relation_rows.data_ptr(),
        )  # fmt: skip
        return d_entity_rows, d_relation_rows, None, None, None, None


def scaled_l1_batch(
    entity_rows: Tensor, relation_rows: Tensor, anchors: Tensor, relations: Tensor, answers: Tensor, negatives: Tensor,
    keep: Tensor | None, columns: Columns, gamma: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """entity_rows: (U, k), relation_rows: (V, w), float32 on the CPU; anchors, relations, answers: (B,) and negatives:
    (P, N), int64 into those rows, pool i // ⌈B/P⌉ for positive i; keep: (B, k) → scores γ − distance of the answers
    (B,) and of the negatives (B, N)."""
    indices = tuple(index.contiguous() for index in (anchors, relations, answers, negatives))
    if any(index.dtype != torch.int64 for index in indices) or [index.ndim for index in indices] != [1, 1, 1, 2]:
        raise ValueError("anchors, relations and answers (B,) and negatives (P, N) must be int64 tensors.")
    run_length(len(anchors), len(negatives))
    if not len(anchors) == len(relations) == len(answers):
        raise ValueError(f"{len(anchors)} anchors, {len(relations)} relations and {len(answers)} answers do not match.")
    k, width = entity_rows.shape[1], relation_rows.shape[1]
    if any(column is not None and column + k > width for column in columns[:3]):
        raise ValueError(f"relation rows of width {width} are too short for entity rows of width {k}.")
    if keep is not None and keep.shape != (len(anchors), k):
        raise ValueError(f"keep has shape {tuple(keep.shape)}, not {(len(anchors), k)}.")
    keep = None if keep is None else keep.contiguous()
    positive, negative = ScaledL1Batch.apply(  # type: ignore[no-untyped-call]
        entity_rows, relation_rows, indices, keep, columns, gamma
    )
    return positive, negative
