"""TransH: translation on a hyperplane of the relation's own."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor
from torch.nn.functional import normalize

from transher import kernels
from transher.graph.graph import Side
from transher.models.model import Model, Part, Query


class TransH(Model):
    """f_r(h, t) = γ − ‖ (h − w⊤h w) + d − (t − w⊤t w) ‖₂ with ‖w‖ = 1. A relation's row is [w | d].

    With the query q = (h − w⊤h w) ± d, the distance to a candidate e is ‖q − e + (w·e) w‖. Squared, it is
    ‖q − e‖² + 2 (w·q)(w·e) − (w·e)²: matrix products only, no projected candidate is ever stored.
    """

    title = "TransH"
    defaults: ClassVar = {"model.gamma": 2.0}

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k), Part("B", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        w, d = relations.chunk(2, -1)
        w = normalize(w, dim=-1)
        projected = anchors - (w * anchors).sum(-1, keepdim=True) * w
        return (projected + d if side == "tail" else projected - d), w

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        q, w = query
        along = w @ candidates.T
        squared = kernels.squared_l2_cross(q, candidates) + along * (2 * (w * q).sum(-1, keepdim=True) - along)
        return self.gamma - kernels.root(squared)

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        q, w = query
        projected = candidates - (w * candidates).sum(-1, keepdim=True) * w
        return self.gamma - kernels.root(kernels.squared_l2_pairs(q, projected))
