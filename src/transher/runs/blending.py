"""Blending: several finished runs as one, with weights for each relation and side.

`join` puts models of one kind side by side in one table; a blend is of runs of any kind, and keeps each as it is: a
whole run in a folder of its own, so that it can be asked alone, updated, and blended again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.runs.folder import member_folders, new_folder, write_start
from transher.runs.run import Run, load
from transher.runs.train import conclude
from transher.runs.weighing import weigh
from transher.training.blend_recipe import BlendRecipe, BlendSettings
from transher.training.watcher import Watcher

_LEFT_OUT = shutil.ignore_patterns(".*", "tensorboard")


def blend(runs: Sequence[Run], out: str | Path, *, watcher: Watcher | None = None) -> Run:
    """One run, in the folder `out`, of several finished ones on one graph, of whichever kind."""
    _refuse_unlike(runs)

    def copy(number: int, folder: Path) -> None:
        shutil.copytree(runs[number].folder, folder, ignore=_LEFT_OUT)

    return blend_members(runs[0].graph, len(runs), copy, Path(out), watcher)


def blend_members(
    graph: Graph,
    count: int,
    make: Callable[[int, Path], None],
    out: Path,
    watcher: Watcher | None = None,
    before: Callable[[Path], None] | None = None,
) -> Run:
    """The blend of so many runs, which `make` puts into folders by their number from 0. It appears once it is whole.
    before: what is written into its folder first, for an update."""
    watcher, recipe = watcher or Watcher(), BlendRecipe(blend=BlendSettings(members=count))
    with new_folder(out) as filling:
        write_start(filling, graph, recipe)
        if before is not None:
            before(filling)
        for number, folder in enumerate(member_folders(filling, recipe)):
            make(number, folder)
        cost, members = weigh(filling, graph, recipe, watcher)
        conclude(filling, recipe, graph, cost, members, watcher)
    return load(out)


def _refuse_unlike(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise UsageError("it takes two runs or more to blend.")
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise UsageError("a run is named twice: blended with itself it is what it was.")
    for run in runs:
        if run.manifest is None:
            raise UsageError(f"{run.folder} is not finished: train it to its end before it is blended.")
        # Split by split: what one was trained on must not be what the other is tested on.
        if not run.graph.equals(runs[0].graph):
            raise UsageError(f"{run.folder} was trained on another graph than {runs[0].folder}.")
    if not len(runs[0].graph.valid):
        raise UsageError(f"The graph '{runs[0].graph.name}' has no validation triples to fit weights on.")
