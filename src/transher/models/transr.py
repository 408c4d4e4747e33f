"""TransR: every relation looks at entities through a matrix of its own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from transher import kernels
from transher.models.model import Model, Part, Query, Side


class TransR(Model):
    """f_r(h, t) = γ − ‖ M_r h + r − M_r t ‖₂. A relation's row is [M_r (k·k, by rows) | r]."""

    name = "transr"
    title = "TransR"

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k * self.k, identity=True), Part("B", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        M, r = relations.split([self.k * self.k, self.k], -1)
        projected = torch.bmm(M.view(-1, self.k, self.k), anchors[..., None])[..., 0]
        return (projected + r if side == "tail" else projected - r), M

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        """One query at a time, since each has a matrix of its own; recomputed backward, so memory stays (N, k)."""
        rows = [checkpoint(self._row, q, M, candidates, use_reentrant=False) for q, M in zip(*query, strict=True)]
        return torch.stack(rows) if rows else candidates.new_empty(0, len(candidates))

    def _row(self, q: Tensor, M: Tensor, candidates: Tensor) -> Tensor:
        projected = candidates @ M.view(self.k, self.k).T
        return self.gamma - kernels.root(kernels.squared_l2_pairs(q, projected))

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        q, M = query
        projected = torch.bmm(M.view(-1, self.k, self.k), candidates[..., None])[..., 0]
        return self.gamma - kernels.root(kernels.squared_l2_pairs(q, projected))
