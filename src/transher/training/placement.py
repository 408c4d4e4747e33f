"""Rows for what is new: initialised from the neighbours, and a short training that moves nothing else."""

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
from transher.training.recipe import Recipe
from transher.training.step import TrainingStep
from transher.training.table import SparseAdamTable

PLACEMENT_STEPS = 200
_ANALOGUES = 50  # entities that a triple of a new one may lend the rows of
_NOISE = 0.01  # of the rows' spread: new entities with the same neighbours must be able to part
# A few hundred steps on a few triples take the plain loss, at a learning rate that falls to 0.
_PLAIN = {
    "schedule": "linear",
    "warmup": 0,
    "pools": 1,
    "typed": False,
    "translation_l2": 0.0,
    "n3": 0.0,
    "dropout": 0.0,
    "gradient_share": 1.0,
    "averaging": 0.0,
    "relation_prediction": 0.0,
    "precision": "float32",
}
_NEGATIVES = 256  # where the recipe has all entities


def place(scorer: Embeddings, old: Graph, growth: Growth, recipe: Recipe, steps: int = PLACEMENT_STEPS) -> Embeddings:
    """A scorer of the grown graph: old rows as they were, new ones put where their triples want them."""
    tables = _initialised(scorer, old, growth, recipe)
    entities, relations = (torch.arange(len(table)) for table in tables)
    new = entities >= growth.old_entities, relations % len(growth.graph.relations) >= growth.old_relations
    _settle(scorer.model, tables, new, growth, recipe, steps)
    return Embeddings(scorer.model, *tables, scorer.reciprocal)


def widened(rows: Tensor, growth: Growth, fresh: Tensor) -> Tensor:
    """A relation table (or its optimiser's state) with `fresh` rows for the new relations. With reciprocal relations
    the table is [r | r⁻¹], so that new rows go to two places."""
    if not growth.new_relations:
        return rows
    parts, more = rows.split(growth.old_relations), fresh.split(growth.new_relations)
    return torch.cat([piece for pair in zip(parts, more, strict=True) for piece in pair])


def _initialised(scorer: Embeddings, old: Graph, growth: Growth, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Both tables with rows for what is new, before any training."""
    copies = 2 if scorer.reciprocal else 1
    drawn_entities, drawn_relations = initial_tables(
        scorer.model,
        growth.new_entities,
        copies * growth.new_relations,
        recipe.model.init,
        recipe.model.xavier,
        recipe.training.seed,
    )
    return (
        torch.cat([scorer.entity_weights, _initial_entities(scorer, old, growth, drawn_entities)]),
        widened(scorer.relation_weights.clone(), growth, _initial_relations(scorer, old, growth, drawn_relations)),
    )


def _initial_entities(scorer: Embeddings, old: Graph, growth: Growth, drawn: Tensor) -> Tensor:
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


def _initial_relations(scorer: Embeddings, old: Graph, growth: Growth, drawn: Tensor) -> Tensor:
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
    model: Model, tables: tuple[Tensor, Tensor], free: tuple[Tensor, Tensor], growth: Growth, recipe: Recipe, steps: int
) -> None:
    """Train the free rows of both tables, in place, on the triples that have one; all other rows stay as they are."""
    touching = _touching(growth.added, growth)
    if not len(touching):
        return
    drawn = {"negatives": _NEGATIVES, "sampled_softmax": True} if recipe.training.negatives == "all" else {}
    settings = recipe.training.model_copy(
        update={**_PLAIN, **drawn, "steps": steps, "batch": min(recipe.training.batch, len(touching))}
    )
    small = replace(growth.graph, train=touching, train_weights=None)
    batches = Batches(small, settings, recipe.model.reciprocal)
    entities, relations = SparseAdamTable(tables[0], unit=settings.unit_entities), SparseAdamTable(tables[1])
    train_step = TrainingStep(model, settings, batches, entities, relations, free)
    for step in range(steps):
        train_step(batches.at(step), step)


def _touching(triples: Triples, growth: Growth) -> NDArray[np.int32]:
    fresh = (triples[:, ::2] >= growth.old_entities).any(1) | (triples[:, 1] >= growth.old_relations)
    touching: NDArray[np.int32] = triples[fresh]
    return touching
