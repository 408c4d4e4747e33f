"""HolE: circular correlation, by FFT."""

from __future__ import annotations

import torch
from torch import Tensor

from transher.graph.graph import Side
from transher.models.families import DotModel
from transher.models.model import Part, Query


class HolE(DotModel):
    """f_r(h, t) = r · (h ⋆ t), with [h ⋆ t]_i = Σ_j h_j t_{(i+j) mod k}.

    As a dot product with the candidate: t · (r ∗ h) for tails (convolution), h · (r ⋆ t) for heads (correlation).
    """

    title = "HolE"

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        anchor, relation = torch.fft.rfft(anchors), torch.fft.rfft(relations)
        spectrum = relation * anchor if side == "tail" else relation.conj() * anchor
        return (torch.fft.irfft(spectrum, n=self.k),)

    def relation_query(self, heads: Tensor, tails: Tensor) -> Tensor:
        head, tail = torch.fft.rfft(heads), torch.fft.rfft(tails)
        correlation: Tensor = torch.fft.irfft(head.conj() * tail, n=self.k)
        return correlation
