"""PairRE: TranSHER without the translation."""

from __future__ import annotations

from torch import Tensor

from transher.graph.graph import Side
from transher.kernels import Columns, normalise
from transher.models.families import ScaledL1Model, joined_directions
from transher.models.model import Model, Part, Query


class PairRE(ScaledL1Model):
    """f_r(h, t) = γ − ‖ r^H∘ĥ − r^T∘t̂ ‖₁. A relation's row is [r^H | r^T]."""

    title = "PairRE"
    only_direction = True

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", 2 * self.k)]

    def entities(self, rows: Tensor) -> Tensor:
        return normalise(rows)

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        r_H, r_T = relations.chunk(2, -1)
        return (r_H * anchors, r_T) if side == "tail" else (r_T * anchors, r_H)

    def columns(self, side: Side) -> Columns:
        return Columns(0, self.k, None, 1.0, True) if side == "tail" else Columns(self.k, 0, None, 1.0, True)

    def scales(self, relations: Tensor) -> tuple[Tensor, Tensor]:
        return relations[..., : self.k], relations[..., self.k :]

    def joined_rows(self, entities: Tensor, relations: Tensor, joined: Model, share: float) -> tuple[Tensor, Tensor]:
        return joined_directions(self, entities, relations, share)
