"""Reproducing: train what is missing, resume what was interrupted, record and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from transher.analysis.experiments import COMPARED, MAIN, SHORT, Experiment
from transher.analysis.results import record, record_comparison
from transher.errors import UsageError
from transher.graph import load_graph
from transher.runs.compare import compare
from transher.runs.folder import MANIFEST_FILE, RECIPE_FILE
from transher.runs.joining import join
from transher.runs.run import load
from transher.runs.train import resume, train
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
    """Bring every experiment to its end and record it; gives the files of results. Killed at any time, it resumes when
    it is called again."""
    written, finished, graph = [], {}, None
    for experiment in experiments:
        folder = runs_folder / experiment.name
        state = _state(folder, experiment.recipe)
        if started:
            started(experiment, state)
        if state == "resume":
            resume(folder, watcher=watcher)
        elif state == "start" and experiment.members:
            join([load(runs_folder / name) for name in experiment.members], folder)
        elif state == "start":
            graph = load_graph(experiment.benchmark) if graph is None else graph
            train(graph, folder, recipe=experiment.recipe, watcher=watcher)
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
    """What is to be done: "start", "resume", or nothing, since it is "done"."""
    if not (folder / RECIPE_FILE).is_file():
        return "start"
    if Recipe.load(folder / RECIPE_FILE) != recipe:
        raise UsageError(
            f"{folder} holds a training with another recipe: remove it, or choose another folder with --runs."
        )
    return "done" if (folder / MANIFEST_FILE).is_file() else "resume"


def _comparisons(
    experiments: Sequence[Experiment], folders: dict[tuple[str, str, int], Path], results_folder: Path
) -> list[Path]:
    """The paired test of TranSHER against PairRE under every budget and seed that both have."""
    first, second = COMPARED
    written = []
    for model, variant, seed in sorted(folders):
        if model == first and variant in (MAIN, SHORT) and (second, variant, seed) in folders:
            one, other = (load(folders[model, variant, seed]) for model in COMPARED)
            comparison = compare(one, other)
            benchmark = experiments[0].benchmark
            written.append(record_comparison(results_folder, benchmark, first, second, variant, seed, comparison))
    return written
