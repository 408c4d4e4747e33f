"""How tables start: one choice of distribution per component, E-G-B, as in `U_N_N`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from transher.models.model import Model, Part

Xavier = Literal["code", "paper"]
STRATEGIES = tuple(f"{e}_{g}_{b}" for e in "UN" for g in "UN" for b in "UN")


def initial_tables(
    model: Model, entity_count: int, relation_count: int, strategy: str, xavier: Xavier, seed: int
) -> tuple[Tensor, Tensor]:
    """The entity table (entities, d) and the relation table (relations, w), drawn from `seed`."""
    generator = torch.Generator().manual_seed(seed)
    letters = dict(zip("EGB", strategy.split("_"), strict=True))
    entities = _table(model, model.entity_parts, entity_count, letters, xavier, generator)
    relations = _table(model, model.relation_parts, relation_count, letters, xavier, generator)
    return entities, relations


def xavier_std(xavier: Xavier, k: int, rows: int, columns: int) -> float:
    """Standard deviation of N_X. The paper prints √(2/k); its code calls torch's xavier_normal_ on the whole table,
    which gives √(2/(rows + columns)), and the published numbers come from the code."""
    return math.sqrt(2 / k) if xavier == "paper" else math.sqrt(2 / (rows + columns))


def _table(
    model: Model,
    parts: Sequence[Part],
    rows: int,
    letters: dict[str, str],
    xavier: Xavier,
    generator: torch.Generator,
) -> Tensor:
    table = torch.empty(rows, sum(part.width for part in parts))
    for part, columns in zip(parts, table.split([part.width for part in parts], dim=1), strict=True):
        if part.identity:
            columns.copy_(torch.eye(math.isqrt(part.width)).reshape(1, -1))
        elif letters[part.letter] == "U":
            columns.uniform_(-model.initial_range, model.initial_range, generator=generator)
        else:
            columns.normal_(0.0, xavier_std(xavier, model.k, rows, part.width), generator=generator)
    return table
