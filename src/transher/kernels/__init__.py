"""B queries against N candidates: one function per kind of score, and the choice of who computes it."""

from __future__ import annotations

import torch
from torch import Tensor

from transher.kernels.batch import Columns, Positions, scaled_l1_batch
from transher.kernels.distances import (
    complex_modulus_cross,
    complex_modulus_pairs,
    complex_modulus_pools,
    scaled_l1_cross,
    scaled_l1_listed,
    scaled_l1_pairs,
)
from transher.kernels.known import Known
from transher.kernels.loss import self_adversarial
from transher.kernels.native import backend
from transher.kernels.pools import pool_count, run_length
from transher.kernels.ranking import Chunk, normalise, scaled_l1_count, scaled_l1_top
from transher.kernels.reference import (
    Adam,
    count_better,
    merge_best,
    squared_l2_cross,
    squared_l2_pairs,
)
from transher.kernels.rows import (
    adagrad_rows,
    adam_rows,
    add_rows,
    distinct,
    gather_rows,
    mask_known,
    sum_by,
    take_rows,
    unit_rows,
)
from transher.kernels.softmax import Room, has_bfloat16, softmax_gradients
from transher.kernels.thinning import thin

__all__ = [
    "Adam",
    "Chunk",
    "Columns",
    "Known",
    "Positions",
    "Room",
    "adagrad_rows",
    "adam_rows",
    "add_rows",
    "backend",
    "complex_modulus_cross",
    "complex_modulus_pairs",
    "complex_modulus_pools",
    "count_better",
    "distinct",
    "gather_rows",
    "has_bfloat16",
    "mask_known",
    "merge_best",
    "normalise",
    "pool_count",
    "root",
    "run_length",
    "scaled_l1_batch",
    "scaled_l1_count",
    "scaled_l1_cross",
    "scaled_l1_listed",
    "scaled_l1_pairs",
    "scaled_l1_top",
    "self_adversarial",
    "softmax_gradients",
    "squared_l2_cross",
    "squared_l2_pairs",
    "sum_by",
    "take_rows",
    "thin",
    "unit_rows",
]


def root(squared: Tensor) -> Tensor:
    """Square root of squared distances; its gradient stays finite where rounding or equality made them zero."""
    return squared.clamp_min(torch.finfo(squared.dtype).eps ** 2).sqrt()
