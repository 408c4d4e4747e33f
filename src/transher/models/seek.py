"""SEEK: products of segments, which let features of head, relation and tail meet."""

from __future__ import annotations

import torch
from torch import Tensor

from transher.models.families import DotModel
from transher.models.model import Part, Query, Side


class SEEK(DotModel):
    """f_r(h, t) = Σ_{x,y<d} s_{xy} ⟨r_x, h_y, t_w⟩ with h, r, t cut into d segments.

    For even x: w = y and s = +1; for odd x: w = (x + y) mod d, and s = −1 if x + y ≥ d, else +1.
    """

    name = "seek"
    title = "SEEK"

    def __init__(self, k: int, gamma: float, segments: int = 4) -> None:
        super().__init__(k, gamma)
        if k % segments:
            raise ValueError(f"SEEK cuts k = {k} into {segments} equal segments: make k a multiple of {segments}.")
        self.segments = segments

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        d = self.segments
        anchor, relation = anchors.chunk(d, -1), relations.chunk(d, -1)
        q = [torch.zeros_like(anchor[0])] * d
        for x in range(d):
            for y in range(d):
                w, sign = (y, 1.0) if x % 2 == 0 else ((x + y) % d, -1.0 if x + y >= d else 1.0)
                given, asked = (y, w) if side == "tail" else (w, y)
                q[asked] = q[asked] + sign * relation[x] * anchor[given]
        return (torch.cat(q, -1),)
