"""The two families that most models belong to: scaled L1 distances and dot products."""

from __future__ import annotations

from torch import Tensor

from transher import kernels
from transher.models.model import Model, Query


class ScaledL1Model(Model):
    """γ − Σ_i |q_i − s_i e_i|, with the query (q, s)."""

    can_drop = True

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        q, s = query
        return self.gamma - kernels.scaled_l1_cross(q, s, candidates)

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        q, s = query
        return self.gamma - kernels.scaled_l1_pairs(q, s, candidates)


class DotModel(Model):
    """Σ_i q_i e_i, with the query (q,): one matrix product for BLAS."""

    can_drop = True

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        (q,) = query
        return q @ candidates.T

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        (q,) = query
        return (q * candidates).sum(-1)
