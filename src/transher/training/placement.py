"""Rows for what is new: a start from the neighbours, and a short training that moves nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.graph.graph import SIDES, Graph, Triples
from transher.graph.growing import Growth
from transher.graph.known import KnownAnswers
from transher.models.embeddings import Embeddings
from transher.models.initialisation import initial_tables
from transher.models.model import Model
from transher.training.batches import Batches
from transher.training.loss import batch_loss
from transher.training.recipe import Recipe
from transher.training.table import SparseAdamTable

PLACEMENT_STEPS = 200
_ANALOGUES = 50  # entities that a triple of a new one may lend the rows of
_NOISE = 0.01  # of the rows' spread: new entities with the same neighbours must be able to part


def place(scorer: Embeddings, old: Graph, growth: Growth, recipe: Recipe, steps: int = PLACEMENT_STEPS) -> Embeddings:
    """A scorer of the grown graph: old rows as they were, new ones put where their triples want them."""
    entities, relations = _started(scorer, old, growth, recipe)
    free_entities = torch.arange(len(entities)) >= growth.old_entities
    ids = torch.arange(len(relations)) % len(growth.graph.relations)
    _settle(scorer.model, entities, relations, free_entities, ids >= growth.old_relations, growth, recipe, steps)
    return Embeddings(scorer.model, entities, relations, scorer.reciprocal)


def widened(rows: Tensor, growth: Growth, fresh: Tensor) -> Tensor:
    """A relation table (or its optimiser's state) with `fresh` rows for the new relations. With reciprocal relations
    the table is [r | r⁻¹], so that new rows go to two places."""
    if not growth.new_relations:
        return rows
    parts, more = rows.split(growth.old_relations), fresh.split(growth.new_relations)
    return torch.cat([piece for pair in zip(parts, more, strict=True) for piece in pair])


def _started(scorer: Embeddings, old: Graph, growth: Growth, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Both tables with rows for what is new, before any training."""
    copies = 2 if scorer.reciprocal else 1
    drawn_entities, drawn_relations = initial_tables(
        scorer.model, growth.new_entities, copies * growth.new_relations, recipe.model.init, recipe.model.xavier,
        recipe.training.seed,
    )  # fmt: skip
    return (
        torch.cat([scorer.entity_weights, _entity_starts(scorer, old, growth, drawn_entities)]),
        widened(scorer.relation_weights.clone(), growth, _relation_starts(scorer, old, growth, drawn_relations)),
    )


def _entity_starts(scorer: Embeddings, old: Graph, growth: Growth, drawn: Tensor) -> Tensor:
    """The mean row of those that stand where a new entity stands: for (new, r, t) the known heads of (?, r, t), or the
    heads of r if t is new to it. `drawn`, (new, d), is for those that share nothing with anyone."""
    totals, counts = torch.zeros_like(drawn), torch.zeros(len(drawn))
    train = old.train
    for side in SIDES:
        anchor, asked = (0, 2) if side == "tail" else (2, 0)
        mine = growth.added[growth.added[:, asked] >= growth.old_entities]
        mine = mine[mine[:, 1] < growth.old_relations]
        known = KnownAnswers(train, len(growth.graph.entities), len(growth.graph.relations), side)
        offsets, answers = known.of(mine[:, anchor], mine[:, 1])
        for number, triple in enumerate(mine):
            analogues = answers[offsets[number] : offsets[number + 1]][:_ANALOGUES]
            if not len(analogues):
                analogues = train[train[:, 1] == triple[1], asked][:_ANALOGUES]
            place = int(triple[asked]) - growth.old_entities
            totals[place] += scorer.entity_weights[torch.from_numpy(analogues.astype(np.int64))].sum(0)
            counts[place] += len(analogues)
    spread = float(scorer.entity_weights.std())
    noise = drawn / max(float(drawn.std()) if drawn.numel() > 1 else 1.0, 1e-9) * spread * _NOISE
    return torch.where(counts[:, None] > 0, totals / counts.clamp_min(1)[:, None] + noise, drawn)


def _relation_starts(scorer: Embeddings, old: Graph, growth: Growth, drawn: Tensor) -> Tensor:
    """The row of the old relation that has most heads and tails in common; `drawn` where none has any."""
    rows = drawn.clone()
    for number in range(growth.new_relations):
        mine = growth.added[growth.added[:, 1] == growth.old_relations + number]
        shared = sum(
            np.bincount(old.train[np.isin(old.train[:, column], mine[:, column]), 1], minlength=growth.old_relations)
            for column in (0, 2)
        )
        if growth.old_relations and np.max(shared):
            nearest = int(np.argmax(shared))
            for copy in range(len(drawn) // growth.new_relations):
                rows[copy * growth.new_relations + number] = scorer.relation_weights[
                    copy * growth.old_relations + nearest
                ]
    return rows


def _settle(
    model: Model,
    entities: Tensor,
    relations: Tensor,
    free_entities: Tensor,
    free_relations: Tensor,
    growth: Growth,
    recipe: Recipe,
    steps: int,
) -> None:
    """Train the free rows, in place, on the triples that have one; all other rows stay as they are."""
    touching = _touching(growth.added, growth)
    if not len(touching):
        return
    settings = recipe.training.model_copy(
        update={
            "batch": min(recipe.training.batch, len(touching)), "typed": False, "translation_l2": 0.0, "dropout": 0.0,
            "pool": "shared", "pools": 1,
        }
    )  # fmt: skip
    small = replace(growth.graph, train=touching, train_weights=None)
    batches = Batches(small, settings, recipe.model.reciprocal)
    tables = (
        (SparseAdamTable(entities, unit=settings.unit_entities), free_entities, 1.0),
        (SparseAdamTable(relations), free_relations, settings.relation_rate),
    )
    for step in range(steps):
        batch = batches.at(step)
        ((rows, pool),) = batch.groups
        pulled = [
            table.pull(ids) for (table, *_), ids in zip(tables, (batch.entity_ids, batch.relation_ids), strict=True)
        ]
        positive, negative = model.batch_scores(
            pulled[0], pulled[1], batch.anchors[rows], batch.relations[rows], batch.answers[rows], pool, batch.side
        )
        loss = batch_loss(settings, positive, negative, batch.valid, batch.weights, batches.stands_for)
        loss.backward()
        rate = settings.lr * (1 - step / steps)
        for (table, free, multiple), ids, part in zip(
            tables, (batch.entity_ids, batch.relation_ids), pulled, strict=True
        ):
            if part.grad is not None:
                moving = free[ids]
                with torch.no_grad():
                    table.push(ids[moving], part.grad[moving], rate * multiple)


def _touching(triples: Triples, growth: Growth) -> NDArray[np.int32]:
    fresh = (triples[:, ::2] >= growth.old_entities).any(1) | (triples[:, 1] >= growth.old_relations)
    touching: NDArray[np.int32] = triples[fresh]
    return touching
