"""TransR: every relation looks at entities through a matrix of its own."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from transher import kernels
from transher.graph.graph import Side
from transher.models.model import Model, Part, Query

_PRODUCTS = 1 << 22  # how many products of two coordinates of a candidate are held at a time


class TransR(Model):
    """f_r(h, t) = γ − ‖ M_r h + r − M_r t ‖₂. A relation's row is [M_r (k·k, by rows) | r]."""

    title = "TransR"
    defaults: ClassVar = {"model.gamma": 2.0}
    largest_default_k = 64  # k·k numbers per relation

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k * self.k, identity=True), Part("B", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        M, r = relations.split([self.k * self.k, self.k], -1)
        projected = torch.bmm(M.view(-1, self.k, self.k), anchors[..., None])[..., 0]
        return (projected + r if side == "tail" else projected - r), M

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        """‖q − M e‖² = ‖q‖² − 2 (M⊤q)·e + (M⊤M)·(e e⊤), the last a dot product over k·k: matrix products for the whole
        batch, instead of projecting every candidate by the matrix of every query."""
        q, M = query
        M = M.view(-1, self.k, self.k)
        linear = torch.bmm(M.transpose(1, 2), q[..., None])[..., 0]
        quadratic = torch.bmm(M.transpose(1, 2), M).flatten(1)
        parts = []
        for e in candidates.split(max(1, _PRODUCTS // self.k**2)):
            products = (e[:, :, None] * e[:, None, :]).flatten(1)
            squared = q.square().sum(-1, keepdim=True) - 2 * linear @ e.T + quadratic @ products.T
            parts.append(self.gamma - kernels.root(squared))
        return torch.cat(parts, 1) if parts else q.new_empty(len(q), 0)

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        q, M = query
        projected = torch.bmm(M.view(-1, self.k, self.k), candidates[..., None])[..., 0]
        return self.gamma - kernels.root(kernels.squared_l2_pairs(q, projected))
