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
    counts = entity_count, relation_count
    entities, relations = (
        torch.empty(count, width)
        for count, width in zip(counts, (model.entity_width, model.relation_width), strict=True)
    )
    fill_tables(model, (entities, relations), counts, strategy, xavier, seed)
    return entities, relations


def fill_tables(
    model: Model, tables: tuple[Tensor, Tensor], counts: tuple[int, int], strategy: str, xavier: Xavier, seed: int
) -> None:
    """Draws the rows of both tables, or of a part of either, in place. `counts`: rows of the whole tables, on which the
    spread depends."""
    generator = torch.Generator().manual_seed(seed)
    letters = dict(zip("EGB", strategy.split("_"), strict=True))
    for table, parts, count in zip(tables, (model.entity_parts, model.relation_parts), counts, strict=True):
        _fill(model, table, parts, count, letters, xavier, generator)


def put_at_margin(model: Model, entities: Tensor, relations: Tensor, seed: int) -> None:
    """Scales the columns G of `relations`, in place, such that random triples, without translations, are at distance γ
    on average. No strategy gives that: as drawn, distances are a small part of γ where entities have length 1, and
    thousands of steps go into making relations larger."""
    heads, ids, tails = probes(len(entities), len(relations), seed)
    scale_multipliers(model, relations, margin_factor(model, entities[heads], relations[ids], entities[tails]))


def probes(entity_count: int, relation_count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Heads, relations and tails (n,) of random triples."""
    generator = torch.Generator().manual_seed(seed)
    heads, tails = (torch.randint(entity_count, (_PROBES,), generator=generator) for _ in "ht")
    return heads, torch.randint(relation_count, (_PROBES,), generator=generator), tails


def margin_factor(model: Model, heads: Tensor, relations: Tensor, tails: Tensor) -> float:
    """By what to multiply the columns G for triples, of these raw rows (n, d), (n, w), (n, d), to be at distance γ."""
    rows = relations.clone()
    translation = model.translation(rows)
    if translation is not None:
        translation.zero_()
    query = model.query(model.entities(heads), rows, "tail")
    distance = float((model.gamma - model.pairs(query, model.entities(tails))).mean())
    return model.gamma / distance if distance > 0 else 1.0


def scale_multipliers(model: Model, relations: Tensor, factor: float) -> None:
    """Multiplies the columns G of relation rows (n, w), in place."""
    for part, columns in _columns(relations, model.relation_parts):
        if part.letter == "G":
            columns.mul_(factor)


def xavier_std(xavier: Xavier, k: int, rows: int, columns: int) -> float:
    """Standard deviation of N_X. The paper prints √(2/k); its code calls torch's xavier_normal_ on the whole table,
    which gives √(2/(rows + columns)), and the published numbers come from the code."""
    return math.sqrt(2 / k) if xavier == "paper" else math.sqrt(2 / (rows + columns))


def _fill(
    model: Model,
    table: Tensor,
    parts: Sequence[Part],
    rows: int,
    letters: dict[str, str],
    xavier: Xavier,
    generator: torch.Generator,
) -> None:
    for part, columns in _columns(table, parts):
        if part.identity:
            columns.copy_(torch.eye(math.isqrt(part.width)).reshape(1, -1))
        elif letters[part.letter] == "U":
            columns.uniform_(-model.initial_range, model.initial_range, generator=generator)
        else:
            columns.normal_(0.0, xavier_std(xavier, model.k, rows, part.width), generator=generator)


def _columns(table: Tensor, parts: Sequence[Part]) -> Iterator[tuple[Part, Tensor]]:
    """Each part with its columns, a view into the table."""
    return zip(parts, table.split([part.width for part in parts], dim=1), strict=True)
