"""B queries against N candidates: one function per kind of score, and the choice of who computes it."""

from __future__ import annotations

import torch
from torch import Tensor

from transher.kernels.batch import Columns, scaled_l1_batch
from transher.kernels.distances import scaled_l1_cross, scaled_l1_pairs
from transher.kernels.loss import self_adversarial
from transher.kernels.native import backend
from transher.kernels.reference import (
    complex_modulus_cross,
    complex_modulus_pairs,
    squared_l2_cross,
    squared_l2_pairs,
)
from transher.kernels.rows import adam_rows, gather_rows, mask_known

__all__ = [
    "Columns",
    "adam_rows",
    "backend",
    "complex_modulus_cross",
    "complex_modulus_pairs",
    "gather_rows",
    "mask_known",
    "root",
    "scaled_l1_batch",
    "scaled_l1_cross",
    "scaled_l1_pairs",
    "self_adversarial",
    "squared_l2_cross",
    "squared_l2_pairs",
]


def root(squared: Tensor) -> Tensor:
    """Square root of squared distances; its gradient stays finite where rounding or equality made them zero."""
    return squared.clamp_min(torch.finfo(squared.dtype).eps ** 2).sqrt()
