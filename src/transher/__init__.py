"""TranSHER: the missing facts of a knowledge graph, from embeddings that train in minutes on plain CPUs.

import transher
run = transher.train("world")  # or a DataFrame, a path, a list of triples
run.metrics()
run.predict(head="France", relation="borders")
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# torch's threads wait by spinning, and on a machine that others use too they spin the cores away from each other: a
# step was seen to take 15 times as long. Read when torch is loaded; who has set it keeps their choice.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from transher.errors import TransherError
    from transher.graph import Graph, load_graph
    from transher.runs.blending import blend
    from transher.runs.compare import compare
    from transher.runs.export import export
    from transher.runs.joining import join
    from transher.runs.run import Run, load
    from transher.runs.search import search
    from transher.runs.train import resume, train
    from transher.runs.update import update
    from transher.training.defaults import default_recipe
    from transher.training.recipe import Recipe

# Loaded on first use, so that `transher --help` and reading a graph do not wait for torch.
_NAMES = {
    "transher.errors": ("TransherError",),
    "transher.graph": ("Graph", "load_graph"),
    "transher.runs.blending": ("blend",),
    "transher.runs.compare": ("compare",),
    "transher.runs.export": ("export",),
    "transher.runs.joining": ("join",),
    "transher.runs.run": ("Run", "load"),
    "transher.runs.search": ("search",),
    "transher.runs.train": ("resume", "train"),
    "transher.runs.update": ("update",),
    "transher.training.defaults": ("default_recipe",),
    "transher.training.recipe": ("Recipe",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "Graph",
    "Recipe",
    "Run",
    "TransherError",
    "blend",
    "compare",
    "default_recipe",
    "export",
    "join",
    "load",
    "load_graph",
    "resume",
    "search",
    "train",
    "update",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("transher.versions").version_of("transher")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'transher' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
