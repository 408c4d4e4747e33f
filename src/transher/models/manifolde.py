"""ManifoldE, in its sphere form."""

from __future__ import annotations

from torch import Tensor

from transher import kernels
from transher.graph.graph import Side
from transher.models.model import Model, Part, Query


class ManifoldE(Model):
    """f_r(h, t) = γ − | ‖h + r − t‖² − D_r² |: tails lie on a sphere around h + r. A relation's row is [r | D_r]."""

    title = "ManifoldE"

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("B", self.k), Part("G", 1)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        r, D = relations.split([self.k, 1], -1)
        return (anchors + r if side == "tail" else anchors - r), D

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        q, D = query
        return self.gamma - (kernels.squared_l2_cross(q, candidates) - D.square()).abs()

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        q, D = query
        return self.gamma - (kernels.squared_l2_pairs(q, candidates) - D[:, 0].square()).abs()
