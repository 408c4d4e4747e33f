"""How tables are initialised: one choice of distribution per component, E-G-B, as in `U_N_N`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from transher.models.model import Model, Part

Xavier = Literal["code", "paper"]
# In the order of the paper's table.
STRATEGIES = ("N_N_N", "N_N_U", "N_U_N", "U_N_N", "N_U_U", "U_N_U", "U_U_N", "U_U_U")
_PROBES = 1024  # random triples whose mean distance is measured


def initial_tables(
    model: Model, entity_count: int, relation_count: int, strategy: str, xavier: Xavier, seed: int
) -> tuple[Tensor, Tensor]:
    """The entity table (entities, d) and the relation table (relations, w), drawn from `seed`."""
    generator = torch.Generator().manual_seed(seed)
    letters = dict(zip("EGB", strategy.split("_"), strict=True))
    entities = _table(model, model.entity_parts, entity_count, letters, xavier, generator)
    relations = _table(model, model.relation_parts, relation_count, letters, xavier, generator)
    return entities, relations


def put_at_margin(model: Model, entities: Tensor, relations: Tensor, seed: int) -> None:
    """Scales the columns G of `relations`, in place, such that random triples, without translations, are at distance γ
    on average. No strategy gives that: as drawn, distances are a small part of γ where entities have length 1, and
    thousands of steps go into making relations larger."""
    generator = torch.Generator().manual_seed(seed)
    heads, tails = (torch.randint(len(entities), (_PROBES,), generator=generator) for _ in "ht")
    rows = relations[torch.randint(len(relations), (_PROBES,), generator=generator)]
    translation = model.translation(rows)
    if translation is not None:
        translation.zero_()
    query = model.query(model.entities(entities[heads]), rows, "tail")
    distance = float((model.gamma - model.pairs(query, model.entities(entities[tails]))).mean())
    for part, columns in _columns(relations, model.relation_parts):
        if part.letter == "G" and distance > 0:
            columns.mul_(model.gamma / distance)


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
    for part, columns in _columns(table, parts):
        if part.identity:
            columns.copy_(torch.eye(math.isqrt(part.width)).reshape(1, -1))
        elif letters[part.letter] == "U":
            columns.uniform_(-model.initial_range, model.initial_range, generator=generator)
        else:
            columns.normal_(0.0, xavier_std(xavier, model.k, rows, part.width), generator=generator)
    return table


def _columns(table: Tensor, parts: Sequence[Part]) -> Iterator[tuple[Part, Tensor]]:
    """Each part with its columns, a view into the table."""
    return zip(parts, table.split([part.width for part in parts], dim=1), strict=True)
