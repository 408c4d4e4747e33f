"""New triples join a trained run without starting over, and the report says how old answers moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor

from transher.errors import UsageError
from transher.graph.growing import Growth, grow
from transher.graph.readers import read_triples
from transher.models.embeddings import Embeddings
from transher.runs.arguments import AnyTriples
from transher.runs.folder import new_folder, write_start
from transher.runs.movement import UpdateReport, keep_before, read_movement
from transher.runs.run import Run
from transher.runs.train import train_to_end
from transher.training.checkpoints import TrainingState, load_state, save_state
from transher.training.placement import place, widened
from transher.training.recipe import Recipe
from transher.training.table import TABLES
from transher.training.trainer import Trainer
from transher.training.watcher import Watcher

_SHARE = 10  # a tenth of the steps that the run was trained for
_RATE = 0.3  # of its learning rate: enough to fit, too little to forget


def update(
    run: Run, triples: AnyTriples, out: str | Path, *, steps: int | None = None, watcher: Watcher | None = None
) -> tuple[Run, UpdateReport]:
    """Train the run a little further on its graph with new triples, in any form that `train` takes, into the folder
    `out`.

    Old rows and their optimiser state are kept and trained further; new rows are placed first, with the rest held
    still, and then all train together for a tenth of the run's steps (or `steps`) at a third of its learning rate. An
    update that is stopped or killed is resumed as any training is.
    """
    if run.manifest is not None and "members" in run.manifest:
        raise UsageError(f"{run.folder} was joined of other runs: update each of these, and join them again.")
    scorer, old_recipe = run.trained("an update")
    growth = grow(run.graph, read_triples(triples))
    if not len(growth.added):
        raise UsageError("The graph has all of these triples already: there is nothing to update.")
    folder = Path(out)
    with new_folder(folder) as filling:
        tensors, progress = load_state(run.folder)
        recipe = _short_recipe(old_recipe, steps or max(1, old_recipe.training.steps // _SHARE))
        placed = place(scorer, run.graph, growth, old_recipe)
        write_start(filling, growth.graph, recipe)
        save_state(filling, _state(placed, tensors, growth, recipe), TrainingState(updates=progress.updates))
        keep_before(filling, run.graph, scorer, growth)
    updated = train_to_end(folder, Trainer(growth.graph, recipe, folder, resume=True), watcher)
    report = read_movement(folder)
    assert report is not None
    return updated, report


def _short_recipe(recipe: Recipe, steps: int) -> Recipe:
    values = recipe.model_dump()
    values["training"] |= {"steps": steps, "lr": recipe.training.lr * _RATE, "warmup": 0, "schedule": "linear"}
    values["validation"] |= {"every": max(1, steps // 2), "patience": 0}
    return Recipe.parse(values)


def _state(placed: Embeddings, tensors: dict[str, Tensor], growth: Growth, recipe: Recipe) -> dict[str, Tensor]:
    """A checkpoint of the grown tables: the optimiser knows of old rows what it knew, and nothing of new ones."""
    state = {"entities": placed.entity_weights, "relations": placed.relation_weights}
    for name in TABLES[recipe.training.optimizer].state_names:
        rows = tensors[f"entities.{name}"]
        state[f"entities.{name}"] = torch.cat([rows, torch.zeros(growth.new_entities, rows.shape[1])])
        rows = tensors[f"relations.{name}"]
        fresh = torch.zeros(len(placed.relation_weights) - len(rows), rows.shape[1])
        state[f"relations.{name}"] = widened(rows, growth, fresh)
    return state


def with_facts(run: Run, triples: pa.Table) -> Run:
    """The run as if its graph had these triples too, in memory: entities that it does not know are placed by them, and
    nothing else moves. For an answer on the spot; `update` is for keeps."""
    scorer, recipe = run.trained("a fact on the spot")
    growth = grow(run.graph, triples)
    if growth.new_relations:
        names = growth.graph.relations.identifiers[growth.old_relations :].to_pylist()
        raise UsageError(f"The run has no relation {names[0]!r}: facts on the spot can only use those that it knows.")
    return replace(run, graph=growth.graph, scorer=place(scorer, run.graph, growth, recipe))
