"""TransE, with the L1 or the L2 norm."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from transher import kernels
from transher.graph.graph import Side
from transher.models.families import ScaledL1Model
from transher.models.model import Model, Part, Query


class TransE(ScaledL1Model):
    """f_r(h, t) = γ − ‖ h + r − t ‖₁: the scaled L1 form with every scale 1 and no normalisation."""

    title = "TransE"
    defaults: ClassVar = {"model.gamma": 9.0}

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("B", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        q = anchors + relations if side == "tail" else anchors - relations
        return q, torch.ones_like(q)

    def columns(self, side: Side) -> kernels.Columns:
        return kernels.Columns(None, None, 0, 1.0 if side == "tail" else -1.0, False)

    def joined_rows(self, entities: Tensor, relations: Tensor, joined: Model, share: float) -> tuple[Tensor, Tensor]:
        return entities * share, relations * share


class TransEL2(Model):
    """f_r(h, t) = γ − ‖ h + r − t ‖₂."""

    title = "TransE (L2)"
    defaults: ClassVar = {"model.gamma": 2.0}

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("B", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        return (anchors + relations,) if side == "tail" else (anchors - relations,)

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        return self.gamma - kernels.root(kernels.squared_l2_cross(query[0], candidates))

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        return self.gamma - kernels.root(kernels.squared_l2_pairs(query[0], candidates))
