"""A training from its start to a finished run: begun, resumed after a stop or a kill, and concluded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transher.errors import UsageError
from transher.evaluation import evaluate
from transher.evaluation.calibration import calibrate
from transher.files import alone, sweep, write_json
from transher.graph.graph import Graph
from transher.graph.storage import load_graph_folder
from transher.models.embeddings import Embeddings
from transher.runs.arguments import AnyTriples, Settings, graph_from, recipe_from
from transher.runs.folder import (
    EVALUATION_FILE,
    GRAPH_FOLDER,
    LOCK_FILE,
    MANIFEST_FILE,
    RANKS_FILE,
    new_folder,
    read_recipe,
    read_scorer,
    refuse_to_overwrite,
    write_start,
)
from transher.runs.manifest import write_manifest
from transher.runs.mining import mine_to_end
from transher.runs.movement import report_movement
from transher.runs.run import Run, load
from transher.training.checkpoints import STATE_FILE
from transher.training.rule_recipe import AnyRecipe, RuleRecipe
from transher.training.trainer import Trainer
from transher.training.watcher import Watcher


def train(
    x: Graph | AnyTriples,
    out: str | Path | None = None,
    *,
    model: str | None = None,
    settings: Settings | None = None,
    recipe: AnyRecipe | str | Path | None = None,
    watcher: Watcher | None = None,
) -> Run:
    """Train on a graph and leave a run folder.

    x: a Graph, or triples in any form that `load_graph` takes: a path, a benchmark's name, a DataFrame, an Arrow table,
        an array (n, 3), an iterable of (head, relation, tail).
    out: a folder that is new or empty; without it the run lies in a temporary place, for `Run.save` to keep.
    model: a model's name, or "rules"; "transher" unless given here or by `recipe`.
    settings: what differs from the recipe: `{"training.steps": 500}`, or texts as `["training.steps=500"]`.
    recipe: a Recipe, the name of one that ships with the package, or the path of a TOML file. Without it the settings
        are chosen to suit the graph and the model: see `default_recipe`.
    watcher: is told how the training advances.
    """
    if out is None:
        temporary = TemporaryDirectory(prefix="transher-")
        folder = Path(temporary.name, "run")
        run = train(x, folder, model=model, settings=settings, recipe=recipe, watcher=watcher)
        return replace(run, _temporary=temporary)
    folder = Path(out)
    refuse_to_overwrite(folder)  # before a large graph is read
    graph = graph_from(x)
    return train_to_end(folder, _begin(folder, graph, recipe_from(graph, model, settings, recipe)), watcher)


def _begin(folder: Path, graph: Graph, recipe: AnyRecipe) -> Trainer | None:
    """The folder with its start, and what trains it where it is trained. A recipe that does not fit the graph leaves
    none."""
    with new_folder(folder) as filling:
        write_start(filling, graph, recipe)
        return None if isinstance(recipe, RuleRecipe) else Trainer(graph, recipe, folder)


def resume(folder: str | Path, *, watcher: Watcher | None = None) -> Run:
    """Resume a training or an update from its last checkpoint, or from the beginning if it has none, with the recipe
    and the graph in its folder. It reaches weights that are bit-identical to those of a training without the stop."""
    folder = Path(folder)
    read_recipe(folder)  # tells if this is no run
    if (folder / MANIFEST_FILE).exists():
        raise UsageError(f"{folder} is finished: there is nothing to resume.")
    return train_to_end(folder, None, watcher)


def train_to_end(folder: Path, trainer: Trainer | None, watcher: Watcher | None) -> Run:
    """Train, or mine, and conclude what lies in a folder. Without a trainer, it is resumed from where it stands."""
    with alone(folder / LOCK_FILE, str(folder)):  # before the sweep, which would take what another is writing
        sweep(folder)
        if trainer is None:
            graph, recipe = load_graph_folder(folder / GRAPH_FOLDER), read_recipe(folder)
            if isinstance(recipe, RuleRecipe):
                conclude(folder, recipe, graph, mine_to_end(folder, graph, recipe, watcher))
                return load(folder)
            trainer = Trainer(graph, recipe, folder, resume=(folder / STATE_FILE).is_file())
        trainer.run(watcher)
        graph, recipe, progress = trainer.graph, trainer.recipe, trainer.progress
        del trainer  # its tables must go before the best weights come
        cost = {"seconds": progress.seconds, "steps": progress.step, "best_step": progress.best_step}
        conclude(folder, recipe, graph, cost)
    return load(folder)


def began_with(folder: Path, graph: Graph) -> bool:
    """Whether this is the graph that lies in the folder of a training."""
    return not (folder / GRAPH_FOLDER).is_dir() or load_graph_folder(folder / GRAPH_FOLDER).equals(graph)


def conclude(
    folder: Path, recipe: AnyRecipe, graph: Graph, cost: Mapping[str, float], members: Sequence[dict[str, Any]] = ()
) -> None:
    """Evaluate and calibrate the weights in a folder, report how an update moved them, and write the manifest: the
    folder is a finished run."""
    scorer = read_scorer(folder, recipe, graph)
    if len(graph.test):
        evaluation = evaluate(scorer, graph, "test")
        evaluation.ranks.save(folder / RANKS_FILE)
        write_json(folder / EVALUATION_FILE, evaluation.to_dict())
    calibration = calibrate(scorer, graph)
    if calibration is not None:
        calibration.save(folder, graph)
    if isinstance(scorer, Embeddings) and not isinstance(recipe, RuleRecipe):
        report_movement(folder, graph, scorer, recipe.training.steps)
    write_manifest(folder, recipe, cost, members)
