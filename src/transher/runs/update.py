"""New triples join a trained run without starting over, and the report says how old answers moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor

from transher.blending import Blend
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.graph.growing import Growth, grow
from transher.graph.readers import read_triples
from transher.models.embeddings import Embeddings
from transher.rules import Rules
from transher.runs.arguments import AnyTriples
from transher.runs.blending import blend_members
from transher.runs.folder import member_folders, new_folder, read_recipe, write_start
from transher.runs.judging import carried_judge
from transher.runs.movement import UpdateReport, keep_before, read_movement
from transher.runs.run import Run, load
from transher.runs.train import train, train_to_end
from transher.scorer import Scorer
from transher.training.blend_recipe import BlendRecipe
from transher.training.checkpoints import TrainingState, load_state, save_state
from transher.training.placement import place, widened
from transher.training.recipe import Recipe
from transher.training.rule_recipe import AnyRecipe, RuleRecipe
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

    Of a blend, every member is updated, rules are mined anew for as long as before, and the weights are fitted again;
    it appears once it is whole, and cannot be resumed.
    """
    if isinstance(run.recipe, BlendRecipe):
        return _update_blend(run, run.recipe, triples, Path(out), steps, watcher)
    if run.manifest is not None and "members" in run.manifest:
        raise UsageError(f"{run.folder} was joined of other runs: update each of these, and join them again.")
    scorer, old_recipe = run.trained("an update")
    growth = _growth(run, read_triples(triples))
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


def _growth(run: Run, triples: pa.Table) -> Growth:
    growth = grow(run.graph, triples)
    if not len(growth.added):
        raise UsageError("The graph has all of these triples already: there is nothing to update.")
    return growth


def _update_blend(
    run: Run, recipe: BlendRecipe, x: AnyTriples, out: Path, steps: int | None, watcher: Watcher | None
) -> tuple[Run, UpdateReport]:
    triples = read_triples(x)
    growth, members = _growth(run, triples), [load(folder) for folder in member_folders(run.folder, recipe)]

    def make(number: int, folder: Path) -> None:
        member = members[number]
        if isinstance(member.recipe, RuleRecipe):
            train(growth.graph, folder, recipe=member.recipe, watcher=watcher)
        else:
            update(member, triples, folder, steps=steps, watcher=watcher)

    def before(folder: Path) -> None:
        keep_before(folder, run.graph, run.scorer, growth)

    updated = blend_members(growth.graph, len(members), make, out, watcher, before)
    report = read_movement(out)
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
    run.vectors("a fact on the spot")  # refuses what has none
    growth = grow(run.graph, triples)
    if growth.new_relations:
        names = growth.graph.relations.identifiers[growth.old_relations :].to_pylist()
        raise UsageError(f"The run has no relation {names[0]!r}: facts on the spot can only use those that it knows.")
    placed = _placed(run.scorer, run.folder, run.recipe, run.graph, growth)
    judge = None if run.judge is None else carried_judge(run.judge, placed, growth.graph)
    return replace(run, graph=growth.graph, scorer=placed, _judge=judge)


def _placed(scorer: Scorer, folder: Path, recipe: AnyRecipe, graph: Graph, growth: Growth) -> Scorer:
    """The scorer of a folder with the entities of a growth that has no new relations."""
    if isinstance(scorer, Blend) and isinstance(recipe, BlendRecipe):
        members = zip(scorer.members, member_folders(folder, recipe), strict=True)
        return Blend([_placed(one, own, read_recipe(own), graph, growth) for one, own in members], scorer.weights)
    if isinstance(scorer, Rules):
        return Rules(scorer.rows, growth.graph.trained, scorer.together)
    assert isinstance(scorer, Embeddings)
    assert isinstance(recipe, Recipe)
    return place(scorer, graph, growth, recipe)
