"""Scores of a training batch of a scaled-L1 model as one differentiable operation, from raw rows to scores and back.

Each distinct row is normalised once, and nothing of size (B, k) is kept but the packed queries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from transher.kernels import native
from transher.kernels.interface import NativeBatch
from transher.kernels.pools import run_length


class Positions(NamedTuple):
    """Where the rows of a batch are: int64, into the entity rows (U, d) and, for relations, into the relation rows."""

    anchors: Tensor  # (B,)
    relations: Tensor  # (B,)
    answers: Tensor  # (B,)
    negatives: Tensor  # (P, N), P pools: positive i goes with the pool that `run_length` says


class Columns(NamedTuple):
    """Where a relation's row, asked for one side, holds the parts of q = sign·translation + multiplier∘anchor and of s:
    the first column of each, None where the model has none (multiplier and scale are then 1, the translation 0)."""

    multiplier: int | None
    scale: int | None
    translation: int | None
    sign: float  # +1 or −1, of the translation
    normalised: bool  # whether entities are seen as ê = e/‖e‖


class ScaledL1Batch(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        entity_rows: Tensor,
        relation_rows: Tensor,
        positions: Positions,
        keep: Tensor | None,
        columns: Columns,
        gamma: float,
    ) -> tuple[Tensor, Tensor]:
        entity_rows, relation_rows = entity_rows.contiguous(), relation_rows.contiguous()
        anchors, relations, answers, negatives = (part.contiguous() for part in positions)
        keep = None if keep is None else keep.contiguous()
        multiplier, scale, translation, sign, normalised = columns
        batch = native.loaded().Batch(
            entity_rows,
            relation_rows,
            anchors,
            relations,
            answers,
            negatives,
            keep,
            multiplier,
            scale,
            translation,
            sign,
            gamma,
            normalised,
        )
        ctx.batch = batch
        # Unpacking raises if a row, or an index that was checked, was changed in place since.
        ctx.save_for_backward(entity_rows, relation_rows, anchors, relations, answers, negatives)
        positive = entity_rows.new_empty(len(anchors))
        negative = entity_rows.new_empty(len(anchors), negatives.shape[1])
        batch.forward(native.threads(), positive, negative)
        return positive, negative

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        entity_rows, relation_rows, *_ = ctx.saved_tensors
        batch: NativeBatch = ctx.batch
        d_positive, d_negative = (gradient.contiguous() for gradient in gradients)
        d_entity_rows, d_relation_rows = torch.empty_like(entity_rows), torch.empty_like(relation_rows)
        batch.backward(native.threads(), d_positive, d_negative, d_entity_rows, d_relation_rows)
        return d_entity_rows, d_relation_rows, None, None, None, None


def scaled_l1_batch(
    entity_rows: Tensor,
    relation_rows: Tensor,
    positions: Positions,
    keep: Tensor | None,
    columns: Columns,
    gamma: float,
) -> tuple[Tensor, Tensor]:
    """entity_rows: (U, k), relation_rows: (V, w), float32 on the CPU; keep: (B, k) → scores γ − distance of the answers
    (B,) and of the negatives (B, N)."""
    if native.module is None:
        raise RuntimeError("scaled_l1_batch needs the native module.")
    run_length(len(positions.anchors), len(positions.negatives))
    positive, negative = ScaledL1Batch.apply(  # type: ignore[no-untyped-call]
        entity_rows, relation_rows, positions, keep, columns, gamma
    )
    return positive, negative
