"""SEEK: products of segments, which let features of head, relation and tail meet."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from transher.graph.graph import Side
from transher.models.families import DotModel
from transher.models.model import Part, Query

Segments = Annotated[int, Field(ge=1, description="number of equal segments that k is cut into")]


class SEEK(DotModel):
    """f_r(h, t) = Σ_{x,y<d} s_{xy} ⟨r_x, h_y, t_w⟩ with h, r, t cut into d segments.

    For even x: w = y and s = +1; for odd x: w = (x + y) mod d, and s = −1 if x + y ≥ d, else +1.
    """

    title = "SEEK"

    def __init__(self, k: int, gamma: float, segments: Segments = 4) -> None:
        super().__init__(k, gamma)
        if k % segments:
            raise ValueError(f"SEEK cuts k = {k} into {segments} equal segments: make k a multiple of {segments}.")
        self.segments = segments

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        d = self.segments
        anchor, relation = (rows.unflatten(-1, (d, -1)) for rows in (anchors, relations))
        q = relation[..., ::2, :].sum(-2, keepdim=True) * anchor  # even segments of r leave the entity's in place
        for x in range(1, d, 2):
            if side == "tail":
                moved = self._moved(anchor, x)
            else:
                moved = torch.cat([anchor[..., x:, :], -anchor[..., :x, :]], -2)
            q = torch.addcmul(q, relation[..., x : x + 1, :], moved)
        return (q.flatten(-2),)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        head, tail = (rows.unflatten(-1, (self.segments, -1)) for rows in (heads, tails))
        met = [(head if x % 2 == 0 else self._moved(head, x)) * tail for x in range(self.segments)]
        return torch.cat([product.sum(-2) for product in met], -1)

    def _moved(self, head: Tensor, x: int) -> Tensor:
        """head: (…, d, k/d) → in segment w the one that meets t_w by the odd segment r_x, with its sign."""
        place = self.segments - x
        return torch.cat([-head[..., place:, :], head[..., :place, :]], -2)
