"""Small finished runs of each kind, to be damaged."""

from __future__ import annotations

from pathlib import Path

from tests.runs.test_update import NEW, towns

import transher
from transher.training.recipe import Recipe
from transher.training.rule_recipe import RuleRecipe

SETTINGS = ["model.k=4", "training.steps=4", "training.batch=16", "training.negatives=4", "validation.every=2"]


def make_runs(folder: Path) -> dict[str, Path]:
    """Runs by kind: of vectors, of an update, of rules, and a blend of vectors and rules."""
    graph = towns()
    vectors = transher.train(graph, folder / "vectors", recipe=Recipe().with_settings(SETTINGS))
    rules = transher.train(graph, folder / "rules", recipe=RuleRecipe().with_settings(["mining.minutes=0.05"]))
    transher.update(vectors, NEW, folder / "updated")
    transher.blend([vectors, rules], folder / "blend")
    return {kind: folder / kind for kind in ("vectors", "rules", "updated", "blend")}
