"""ComplEx: DistMult over the complex numbers."""

from __future__ import annotations

from torch import Tensor

from transher.graph.graph import Side
from transher.models.families import DotModel
from transher.models.model import Model, Part, Query, complex_moduli, complex_product


class ComplEx(DotModel):
    """f_r(h, t) = Re⟨h, r, conj t⟩ over k complex coordinates, stored as [real | imaginary].

    Re(z conj t) is the dot product of the two as real vectors of length 2k, so the query is z = h∘r for tails and
    z = t∘conj r for heads.
    """

    title = "ComplEx"

    @property
    def entity_parts(self) -> list[Part]:
        return [Part("E", 2 * self.k)]

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", 2 * self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        return (complex_product(anchors, relations, conjugate_b=side == "head"),)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        return complex_product(tails, heads, conjugate_b=True)

    def moduli(self, rows: Tensor) -> Tensor:
        return complex_moduli(rows)

    def joined_rows(self, entities: Tensor, relations: Tensor, joined: Model, share: float) -> tuple[Tensor, Tensor]:
        return entities, relations * share
