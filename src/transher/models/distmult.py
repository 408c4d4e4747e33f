"""DistMult: RESCAL with diagonal matrices."""

from __future__ import annotations

from torch import Tensor

from transher.graph.graph import Side
from transher.models.families import DotModel
from transher.models.model import Model, Part, Query


class DistMult(DotModel):
    """f_r(h, t) = Σ h∘r∘t."""

    title = "DistMult"

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        return (anchors * relations,)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        return heads * tails

    def joined_rows(self, entities: Tensor, relations: Tensor, joined: Model, share: float) -> tuple[Tensor, Tensor]:
        return entities, relations * share
