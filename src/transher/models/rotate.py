"""RotatE: relations turn entities in the complex plane."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from transher import kernels
from transher.graph.graph import Side
from transher.kernels import Positions
from transher.kernels.choice import chosen_for
from transher.models.model import Model, Part, Query, complex_moduli, complex_product


class RotatE(Model):
    """f_r(h, t) = γ − Σ_i | h_i e^{iθ_i} − t_i | over k complex coordinates, stored as [real | imaginary].

    A rotation keeps lengths, so heads are asked for with t∘e^{−iθ}. The table holds θ scaled by U_γ's bound over π, as
    the authors do: a uniform initialisation then covers the circle, and one learning rate suits entities and angles.
    """

    title = "RotatE"
    defaults: ClassVar = {"model.gamma": 9.0}

    @property
    def entity_parts(self) -> list[Part]:
        return [Part("E", 2 * self.k)]

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k)]

    def query(self, anchors: Tensor, relations: Tensor, side: Side) -> Query:
        theta = relations * (math.pi / self.initial_range)
        rotation = torch.cat([theta.cos(), theta.sin()], -1)
        return (complex_product(anchors, rotation, conjugate_b=side == "head"),)

    def cross(self, query: Query, candidates: Tensor) -> Tensor:
        return self.gamma - kernels.complex_modulus_cross(query[0], candidates)

    def pairs(self, query: Query, candidates: Tensor) -> Tensor:
        return self.gamma - kernels.complex_modulus_pairs(query[0], candidates)

    def batch_scores(
        self,
        entity_rows: Tensor,
        relation_rows: Tensor,
        positions: Positions,
        side: Side,
        keep: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """As in Model; a back end's kernel reads the rows of any pools, one for all or one each, where they lie."""
        if chosen_for(entity_rows) is None:
            return super().batch_scores(entity_rows, relation_rows, positions, side, keep)
        anchors, relations, answers, negatives = positions
        rows = kernels.take_rows(entity_rows, torch.cat([anchors, answers]))
        query = self.query(rows[: len(anchors)], kernels.take_rows(relation_rows, relations), side)
        distances = kernels.complex_modulus_pools(query[0], entity_rows, negatives)
        return self.pairs(query, rows[len(anchors) :]), self.gamma - distances

    def moduli(self, rows: Tensor) -> Tensor:
        return complex_moduli(rows) if rows.shape[-1] == 2 * self.k else rows.abs()

    def joined_rows(self, entities: Tensor, relations: Tensor, joined: Model, share: float) -> tuple[Tensor, Tensor]:
        # Angles stay what they are; the table holds them as shares of U_γ's bound, which γ and k set.
        return entities * share, relations * (joined.initial_range / self.initial_range)
