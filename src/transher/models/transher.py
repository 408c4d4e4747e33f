"""TranSHER, the model of the paper."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from transher.graph.graph import Side
from transher.kernels import Columns, normalise
from transher.models.families import ScaledL1Model, joined_directions
from transher.models.model import Model, Part, Query


class TranSHER(ScaledL1Model):
    """f_r(h, t) = γ − ‖ r^H∘ĥ + B_r − r^T∘t̂ ‖₁, with ê = e/‖e‖₂.

    Asked for tails, q = r^H∘ĥ + B_r and s = r^T; asked for heads, q = r^T∘t̂ − B_r and s = r^H.
    A relation's row is [r^H | r^T | B_r].
    """

    title = "TranSHER"
    defaults: ClassVar = {"model.init": "U_N_N"}
    only_direction = True

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", 2 * self.k), Part("B", self.k)]

    def entities(self, rows: Tensor) -> Tensor:
        return normalise(rows)

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        r_H, r_T, B = relations.chunk(3, -1)
        if side == "tail":
            return r_H * anchors + B, r_T
        return r_T * anchors - B, r_H

    def columns(self, side: Side) -> Columns:
        k = self.k
        return Columns(0, k, 2 * k, 1.0, True) if side == "tail" else Columns(k, 0, 2 * k, -1.0, True)

    def translation(self, relations: Tensor) -> Tensor:
        return relations[..., 2 * self.k :]

    def scales(self, relations: Tensor) -> tuple[Tensor, Tensor]:
        return relations[..., : self.k], relations[..., self.k : 2 * self.k]

    def joined_rows(self, entities: Tensor, relations: Tensor, joined: Model, share: float) -> tuple[Tensor, Tensor]:
        return joined_directions(self, entities, relations, share)
