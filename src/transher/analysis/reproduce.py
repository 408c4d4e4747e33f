"""Reproducing: train what is missing, go on with what was interrupted, record, compare, and rewrite the tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from transher.analysis.experiments import COMPARED, MAIN, SHORT, Experiment
from transher.analysis.results import record, record_comparison
from transher.errors import UsageError
from transher.evaluation.significance import compare
from transher.files import alone
from transher.graph import load_graph
from transher.graph.graph import Graph
from transher.runs import run as runs
from transher.runs.joining import join
from transher.runs.run import GRAPH_FOLDER, LOCK_FILE, MANIFEST_FILE, RECIPE_FILE
from transher.training.checkpoints import MODEL_FILE, STATE_FILE
from transher.training.history import HISTORY_FILE
from transher.training.recipe import Recipe
from transher.training.watcher import Watcher

Started = Callable[[Experiment, str], None]  # hears of each experiment and what is done about it


def reproduce(
    experiments: Sequence[Experiment],
    runs_folder: Path,
    results_folder: Path,
    *,
    watcher: Watcher | None = None,
    started: Started | None = None,
) -> list[Path]:
    """Bring every experiment to its end and record it; gives the files of results. Killed at any time, it goes on when
    it is called again."""
    written, finished, graph = [], {}, None
    for experiment in experiments:
        folder = runs_folder / experiment.name
        with alone(runs_folder / f".{experiment.name}.lock", str(folder)):
            state = _state(folder, experiment.recipe)
            if started:
                started(experiment, state)
            if state == "start" and graph is None and not experiment.members:
                graph = load_graph(experiment.benchmark)
            if experiment.members and state == "start":
                shutil.rmtree(folder, ignore_errors=True)
                join([runs.load(runs_folder / name) for name in experiment.members], folder)
            else:
                _bring_to_its_end(folder, experiment, state, graph, watcher)
        written.append(
            record(
                folder,
                results_folder,
                benchmark=experiment.benchmark,
                variant=experiment.variant,
                name=experiment.name,
            )
        )
        finished[experiment.model, experiment.variant, experiment.seed] = folder
    return written + _comparisons(experiments, finished, results_folder)


def _state(folder: Path, recipe: Recipe) -> str:
    """What is to be done: "start", "go on", or nothing, since it is "done"."""
    if not (folder / RECIPE_FILE).is_file():
        _refuse_to_remove(folder, {LOCK_FILE, GRAPH_FOLDER})
        return "start"
    if Recipe.load(folder / RECIPE_FILE) != recipe:
        raise UsageError(
            f"{folder} holds a training with another recipe: remove it, or choose another folder with --runs."
        )
    if (folder / MANIFEST_FILE).is_file():
        return "done"
    if (folder / STATE_FILE).is_file():
        return "go on"
    _refuse_to_remove(folder, {LOCK_FILE, GRAPH_FOLDER, RECIPE_FILE, HISTORY_FILE, MODEL_FILE, "tensorboard"})
    return "start"


def _refuse_to_remove(folder: Path, begun: set[str]) -> None:
    """A folder is cleared for a new start if it holds what a killed training had begun with, and no more."""
    names = {path.name for path in folder.iterdir() if path.suffix != ".part"} if folder.is_dir() else set()
    if names - begun:
        raise UsageError(
            f"{folder} has {', '.join(sorted(names - begun))} and no whole run: look at it and remove it, or choose "
            "another folder with --runs."
        )


def _bring_to_its_end(
    folder: Path, experiment: Experiment, state: str, graph: Graph | None, watcher: Watcher | None
) -> None:
    if state == "go on":
        runs.resume(folder, watcher=watcher)
    elif state == "start":
        assert graph is not None
        shutil.rmtree(folder, ignore_errors=True)  # a training that was killed before its first checkpoint
        runs.train(graph, folder, recipe=experiment.recipe, watcher=watcher)


def _comparisons(
    experiments: Sequence[Experiment], folders: dict[tuple[str, str, int], Path], results_folder: Path
) -> list[Path]:
    """The paired test of TranSHER against PairRE under every budget and seed that both have."""
    first, second = COMPARED
    written = []
    for model, variant, seed in sorted(folders):
        if model == first and variant in (MAIN, SHORT) and (second, variant, seed) in folders:
            one, other = (runs.load(folders[model, variant, seed]).evaluation().ranks for model in COMPARED)
            comparison = compare(one, other)
            benchmark = experiments[0].benchmark
            written.append(record_comparison(results_folder, benchmark, first, second, variant, seed, comparison))
    return written
