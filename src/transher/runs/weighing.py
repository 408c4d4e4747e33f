"""The weights of a blend, fitted on the members that lie in its folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from transher.blending import fit_blend
from transher.blending.storage import save_weights
from transher.evaluation import evaluate
from transher.files import sha256
from transher.graph.graph import Graph
from transher.runs.folder import member_folders, read_recipe, read_scorer, scorer_file
from transher.runs.manifest import read_manifest
from transher.training.blend_recipe import BlendRecipe
from transher.training.history import History
from transher.training.watcher import Watcher

_VALIDATED = 2_000  # validation triples for the line of history, as many as a training has


def weigh(
    folder: Path, graph: Graph, recipe: BlendRecipe, watcher: Watcher
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Fit the weights and keep them in the folder of a blend; gives what everything cost, and what the manifest says of
    its members."""
    folders = member_folders(folder, recipe)
    recipes = [read_recipe(member) for member in folders]
    scorers = [read_scorer(member, own, graph) for member, own in zip(folders, recipes, strict=True)]
    watcher.began(f"Fitting the weights of {len(folders)} members on validation triples")
    start = time.perf_counter()
    blended = fit_blend(scorers, graph)
    files = [scorer_file(member, own) for member, own in zip(folders, recipes, strict=True)]
    save_weights(folder, blended.weights, [sha256(file) for file in files])
    members = [
        {"recipe": own.model_dump(), "cost": manifest["cost"], "threads": manifest["machine"]["threads"]}
        for own, manifest in zip(recipes, map(read_manifest, folders), strict=True)
        if manifest is not None
    ]
    mrr = evaluate(blended, graph, "valid", sample=_VALIDATED).overall.mrr
    seconds = sum(member["cost"]["seconds"] for member in members) + time.perf_counter() - start
    history = History(folder, 0)
    history.add("validation", 0, mrr=mrr, seconds=seconds)
    history.close()
    watcher.noticed(f"The blend has validation MRR {mrr:.4f}.")
    return {"seconds": seconds}, members
