"""New triples join a trained run without starting over, and the report says how old answers moved."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor

from transher.blending import Blend, Tallies
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.graph.growing import Growth, grow, without
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
from transher.runs.verdicts import VERDICTS_FILE, marked, read_verdicts, right_table
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
    run: Run, triples: AnyTriples | None, out: str | Path, *, steps: int | None = None, watcher: Watcher | None = None
) -> tuple[Run, UpdateReport]:
    """Train the run a little further on its graph with new triples, in any form that `train` takes, into the folder
    `out`.

    Old rows and their optimiser state are kept and trained further; new rows are placed first, with the rest held
    still, and then all train together for a tenth of the run's steps (or `steps`) at a third of its learning rate. An
    update that is stopped or killed is resumed as any training is.

    What was said of the run's facts counts: those that were called right join the graph, those that were called wrong
    leave it. With such verdicts, `triples` may be None. The new run keeps them.

    Of a blend, every member is updated, rules are mined anew for as long as before, and the weights are fitted again;
    it appears once it is whole, and cannot be resumed.
    """
    return _updated(run, *_growth(run, triples), Path(out), steps, watcher)


def _updated(
    run: Run, kept: Graph, growth: Growth, folder: Path, steps: int | None, watcher: Watcher | None
) -> tuple[Run, UpdateReport]:
    """kept: the run's graph without what leaves it, from which it grows."""
    if isinstance(run.recipe, BlendRecipe):
        return _updated_blend(run, run.recipe, kept, growth, folder, steps, watcher)
    if run.manifest is not None and "members" in run.manifest:
        raise UsageError(f"{run.folder} was joined of other runs: update each of these, and join them again.")
    scorer, old_recipe = run.trained("an update")
    with new_folder(folder) as filling:
        tensors, progress = load_state(run.folder)
        recipe = _short_recipe(old_recipe, steps or max(1, old_recipe.training.steps // _SHARE))
        placed = place(scorer, kept, growth, old_recipe)
        write_start(filling, growth.graph, recipe)
        save_state(filling, _state(placed, tensors, growth, recipe), TrainingState(updates=progress.updates))
        keep_before(filling, kept, scorer, growth)
        _keep_verdicts(run.folder, filling)
    updated = train_to_end(folder, Trainer(growth.graph, recipe, folder, resume=True), watcher)
    report = read_movement(folder)
    assert report is not None
    return updated, report


def _growth(run: Run, triples: AnyTriples | None) -> tuple[Graph, Growth]:
    """The graph without what was called wrong, and then with what is new and what was called right."""
    said = read_verdicts(run.folder)
    if triples is None and not said:
        raise UsageError("There is nothing to update with: neither triples, nor facts that were called right or wrong.")
    wrong = marked(run.graph, said, "wrong")
    kept = without(run.graph, wrong) if run.graph.known.has(wrong).any() else run.graph
    given = [right_table(said)]
    if triples is not None:
        given.append(read_triples(triples).select(["head", "relation", "tail"]))
    growth = grow(kept, pa.concat_tables([_in_words(table) for table in given]))
    if not len(growth.added) and kept is run.graph:
        told = ", and none that were called wrong" if said else ""
        raise UsageError(f"The graph has all of these triples already{told}: there is nothing to update.")
    return kept, growth


def _in_words(triples: pa.Table) -> pa.Table:
    return triples.cast(pa.schema([(name, pa.string()) for name in triples.column_names]))


def _keep_verdicts(before: Path, folder: Path) -> None:
    if (before / VERDICTS_FILE).is_file():
        shutil.copy(before / VERDICTS_FILE, folder / VERDICTS_FILE)


def _updated_blend(
    run: Run,
    recipe: BlendRecipe,
    kept: Graph,
    growth: Growth,
    out: Path,
    steps: int | None,
    watcher: Watcher | None,
) -> tuple[Run, UpdateReport]:
    members = [load(folder) for folder in member_folders(run.folder, recipe)]

    def make(number: int, folder: Path) -> None:
        member = members[number]
        if isinstance(member.recipe, RuleRecipe):
            train(growth.graph, folder, recipe=member.recipe, watcher=watcher)
        else:
            _updated(member, kept, growth, folder, steps, watcher)

    def before(folder: Path) -> None:
        keep_before(folder, kept, run.scorer, growth)
        _keep_verdicts(run.folder, folder)

    updated = blend_members(growth.graph, len(members), make, out, watcher, before)
    report = read_movement(out)
    assert report is not None
    return updated, report


def _short_recipe(recipe: Recipe, steps: int) -> Recipe:
    values = recipe.model_dump()
    values["training"] |= {
        "steps": steps,
        "lr": recipe.training.lr * _RATE,
        "warmup": 0,
        "schedule": "linear",
        "parts": 1,
    }
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
        placed = [_placed(one, own, read_recipe(own), graph, growth) for one, own in members]
        return Blend(placed, scorer.weights, None if scorer.tallies is None else Tallies.of(growth.graph))
    if isinstance(scorer, Rules):
        return Rules(scorer.rows, growth.graph.trained, scorer.worth)
    assert isinstance(scorer, Embeddings)
    assert isinstance(recipe, Recipe)
    return place(scorer, graph, growth, recipe)
