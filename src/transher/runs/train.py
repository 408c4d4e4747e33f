"""A training from its start to a finished run: begun, resumed after a stop or a kill, and concluded."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transher import devices
from transher.errors import UsageError
from transher.evaluation import evaluate
from transher.files import alone, sweep, write_json
from transher.graph.graph import Graph
from transher.graph.storage import load_graph_folder
from transher.runs.arguments import AnyTriples, Settings, graph_from, ids_of, recipe_from
from transher.runs.choosing import choose_to_end, without_candidates
from transher.runs.folder import (
    EVALUATION_FILE,
    GRAPH_FOLDER,
    LOCK_FILE,
    MANIFEST_FILE,
    RANKS_FILE,
    RECIPE_FILE,
    member_folders,
    new_folder,
    read_recipe,
    read_scorer,
    refuse_to_overwrite,
    write_start,
)
from transher.runs.judging import fitted_judge, save_later
from transher.runs.manifest import write_manifest
from transher.runs.mining import mine_to_end
from transher.runs.movement import report_movement
from transher.runs.run import Run, load
from transher.runs.sharded import SHARDED_FILE, first_does, is_sharded, is_whole, remove_parts, train_parts
from transher.runs.weighing import weigh
from transher.training.blend_recipe import BlendRecipe
from transher.training.checkpoints import STATE_FILE
from transher.training.choice_recipe import ChoiceRecipe
from transher.training.recipe import Recipe
from transher.training.rule_recipe import AnyRecipe, RuleRecipe
from transher.training.trainer import Trainer
from transher.training.watcher import Watcher
from transher.workers import Workers, joined, launched, together


def train(
    x: Graph | AnyTriples,
    out: str | Path | None = None,
    *,
    model: str | None = None,
    settings: Settings | None = None,
    recipe: AnyRecipe | str | Path | None = None,
    minutes: float | None = None,
    later: AnyTriples | None = None,
    sharded: bool = False,
    watcher: Watcher | None = None,
) -> Run:
    """Train on a graph and leave a run folder. In processes that torchrun started, all of them together; a training
    that `out` has already is then continued, so that the same command serves after a restart.

    x: a Graph, or triples in any form that `load_graph` takes: a path, a benchmark's name, a DataFrame, an Arrow table,
        an array (n, 3), an iterable of (head, relation, tail).
    out: a folder that is new or empty; without it the run lies in a temporary place, for `Run.save` to keep.
    model: a model's name, or "rules". Without it, and without settings and a recipe, models are tried on the graph, and
        the best are trained and blended with rules: see `transher.runs.choosing`. Processes that torchrun started train
        "transher" instead: a choice is for one process.
    minutes: for that choice, or for mining rules; chosen by the size of the graph unless given.
    settings: what differs from the recipe: `{"training.steps": 500}`, or texts as `["training.steps=500"]`. They are
        those of "transher" unless another model is named.
    recipe: a Recipe, the name of one that ships with the package, or the path of a TOML file. Without it the settings
        are chosen to suit the graph and the model: see `default_recipe`.
    later: facts that were added to the graph since, on which the probabilities are fitted in place of the validation
        triples. Facts with names that the graph lacks are left out.
    sharded: with training.parts, leave the weights in parts even where they fit into one file.
    watcher: is told how the training advances.
    """
    if out is None:
        if joined().count > 1:
            raise UsageError("several workers train in one folder: name it with out.")
        temporary = TemporaryDirectory(prefix="transher-")
        folder = Path(temporary.name, "run")
        given: dict[str, Any] = {"model": model, "settings": settings, "recipe": recipe, "minutes": minutes}
        run = train(x, folder, later=later, sharded=sharded, watcher=watcher, **given)
        return replace(run, _temporary=temporary)
    folder = Path(out)
    begun: list[Trainer | None] = []

    def begin_here() -> None:
        if launched() and (folder / RECIPE_FILE).is_file():
            return  # begun before a restart
        refuse_to_overwrite(folder)  # before a large graph is read
        graph = graph_from(x)
        chosen = recipe_from(graph, model, settings, recipe, minutes, alone=not launched())
        begun.append(begin(folder, graph, chosen, later, workers=workers.count, sharded=sharded))

    with together() as workers:
        first_does(workers, begin_here)
        # Handed over, not kept: its tables go before the best weights come.
        return train_to_end(folder, begun.pop() if begun else None, watcher)


def begin(
    folder: Path,
    graph: Graph,
    recipe: AnyRecipe,
    later: AnyTriples | None = None,
    *,
    workers: int = 1,
    sharded: bool = False,
) -> Trainer | None:
    """The folder with its start, and what trains it where one process does. A recipe that does not fit the graph leaves
    no folder; one for a single part gets as many as there are workers."""
    facts = None if later is None else ids_of(graph, later)[0]
    if workers > 1 and isinstance(recipe, Recipe) and recipe.training.parts == 1:
        recipe = recipe.with_settings({"training.parts": workers})
    if isinstance(recipe, Recipe) and recipe.training.parts > 1:
        local = int(os.environ.get("LOCAL_WORLD_SIZE", workers))
        devices.find_own(recipe.training.device, local - 1)  # refuses what is not there
    with new_folder(folder) as filling:
        write_start(filling, graph, recipe)
        if facts is not None:
            save_later(filling, facts)
        if sharded:
            (filling / SHARDED_FILE).touch()
        return Trainer(graph, recipe, folder) if isinstance(recipe, Recipe) and recipe.training.parts == 1 else None


def resume(folder: str | Path, *, watcher: Watcher | None = None) -> Run:
    """Resume a training or an update from its last checkpoint, or from the beginning if it has none, with the recipe
    and the graph in its folder. It reaches weights that are bit-identical to those of a training without the stop."""
    folder = Path(folder)
    read_recipe(folder)  # tells if this is no run
    if (folder / MANIFEST_FILE).exists() and not launched():  # torchrun restarts what was finished, too
        raise UsageError(f"{folder} is finished: there is nothing to resume.")
    with together():
        return train_to_end(folder, None, watcher)


def train_to_end(folder: Path, trainer: Trainer | None, watcher: Watcher | None) -> Run:
    """Train, or mine, and conclude what lies in a folder. Without a trainer, it is resumed from where it stands."""
    workers, recipe = joined(), read_recipe(folder)
    if launched() and (folder / MANIFEST_FILE).exists():
        return _loaded(folder, workers)
    if isinstance(recipe, Recipe) and recipe.training.parts > 1 and not is_whole(folder):
        cost = train_parts(folder, recipe, watcher, workers)
        if workers.first or is_sharded(folder):
            conclude(folder, recipe, load_graph_folder(folder / GRAPH_FOLDER), cost, watcher=watcher)
        return _loaded(folder, workers)
    if not workers.first:  # one process is enough for the rest
        raise SystemExit(0)
    with alone(folder / LOCK_FILE, str(folder)):  # before the sweep, which would take what another is writing
        sweep(folder)
        remove_parts(folder)
        if trainer is None:
            graph = load_graph_folder(folder / GRAPH_FOLDER)
            if isinstance(recipe, RuleRecipe):
                conclude(folder, recipe, graph, mine_to_end(folder, graph, recipe, watcher), watcher=watcher)
                return load(folder)
            if isinstance(recipe, ChoiceRecipe | BlendRecipe):
                _blend_to_end(folder, recipe, graph, watcher or Watcher())
                return load(folder)
            trainer = Trainer(graph, recipe, folder, resume=(folder / STATE_FILE).is_file())
        trainer.run(watcher)
        graph, progress = trainer.graph, trainer.progress
        del trainer  # its tables must go before the best weights come
        cost = {"seconds": progress.seconds, "steps": progress.step, "best_step": progress.best_step}
        conclude(folder, recipe, graph, cost, watcher=watcher)
    return load(folder)


def _blend_to_end(folder: Path, recipe: ChoiceRecipe | BlendRecipe, graph: Graph, watcher: Watcher) -> None:
    """Choose the members of a blend unless that is done, weigh them, and conclude."""
    if isinstance(recipe, ChoiceRecipe):
        recipe = choose_to_end(folder, graph, recipe, watcher)
        recipe.save(folder / RECIPE_FILE)  # from here on it is a blend, whose members are all there
    without_candidates(folder)
    cost, members = weigh(folder, graph, recipe, watcher)
    conclude(folder, recipe, graph, cost, members, watcher)


def _loaded(folder: Path, workers: Workers) -> Run:
    """The finished run. A worker that has nothing to say ends here, or when the first one does."""
    if not workers.first and not is_sharded(folder):
        raise SystemExit(0)
    return load(folder)


def began_with(folder: Path, graph: Graph) -> bool:
    """Whether this is the graph that lies in the folder of a training."""
    return not (folder / GRAPH_FOLDER).is_dir() or load_graph_folder(folder / GRAPH_FOLDER).equals(graph)


def conclude(
    folder: Path,
    recipe: AnyRecipe,
    graph: Graph,
    cost: Mapping[str, float],
    members: Sequence[dict[str, Any]] = (),
    watcher: Watcher | None = None,
) -> None:
    """Evaluate what lies in a folder, fit its judge, report how an update moved them, and write the manifest: the
    folder is a finished run."""
    scorer = read_scorer(folder, recipe, graph)
    if len(graph.test):
        evaluation = evaluate(scorer, graph, "test")
        evaluation.ranks.save(folder / RANKS_FILE)
        write_json(folder / EVALUATION_FILE, evaluation.to_dict())
    started = time.perf_counter()
    fitted_judge(folder, scorer, graph, keep=True, training=cost["seconds"], watcher=watcher)
    fitting = round(time.perf_counter() - started, 1)
    report_movement(folder, graph, scorer, _steps(folder, recipe))
    write_manifest(folder, recipe, {**cost, "fitting_seconds": fitting}, members)


def _steps(folder: Path, recipe: AnyRecipe) -> int:
    """Steps of all trainings that a run is made of."""
    if isinstance(recipe, BlendRecipe):
        return sum(_steps(member, read_recipe(member)) for member in member_folders(folder, recipe))
    return recipe.training.steps if isinstance(recipe, Recipe) else 0
