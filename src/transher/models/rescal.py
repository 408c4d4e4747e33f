"""RESCAL: a full bilinear form per relation."""

from __future__ import annotations

import torch
from torch import Tensor

from transher.graph.graph import Side
from transher.models.families import DotModel
from transher.models.model import Part, Query


class RESCAL(DotModel):
    """f_r(h, t) = h⊤ M_r t. A relation's row is M_r, by rows."""

    title = "RESCAL"
    largest_default_k = 64  # k·k numbers per relation

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k * self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        M = relations.view(-1, self.k, self.k)
        if side == "tail":
            M = M.transpose(1, 2)
        return (torch.bmm(M, anchors[..., None])[..., 0],)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        return (heads[:, :, None] * tails[:, None, :]).flatten(1)
