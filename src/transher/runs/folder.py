"""The run folder: what its files are called, how a new one appears, and its recipe and weights as objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transher.errors import InputError, TransherError, UsageError
from transher.files import whole_folder, writing
from transher.graph.graph import Graph
from transher.graph.storage import save_graph
from transher.models import build_model
from transher.models.embeddings import Embeddings
from transher.rules.storage import RULES_FILE, load_rules
from transher.scorer import Scorer
from transher.training.checkpoints import MODEL_FILE, read_tensors
from transher.training.recipe import Recipe
from transher.training.rule_recipe import AnyRecipe, RuleRecipe, load_recipe

RECIPE_FILE, GRAPH_FOLDER, MANIFEST_FILE = "recipe.toml", "graph", "manifest.json"
LOCK_FILE = ".lock"  # empty; held by the process that trains
EVALUATION_FILE, RANKS_FILE = "evaluation.json", "ranks.parquet"  # of the test triples
BEFORE_FILE, UPDATE_FILE = "before_update.safetensors", "update.json"  # of an update: until its end, and from then on


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill that appears at `folder` once it is whole. It overwrites nothing, and one process at a time
    makes it."""
    with writing(folder):
        refuse_to_overwrite(folder)
        with whole_folder(folder) as filling:
            yield filling


def refuse_to_overwrite(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file. Choose a folder that is new or empty.")
    if folder.exists() and any(folder.iterdir()):
        unfinished = (folder / RECIPE_FILE).is_file() and not (folder / MANIFEST_FILE).exists()
        command = f"transher train --out {folder} --resume (in Python: transher.resume)"
        resuming = f", or resume the training in it: {command}" if unfinished else ""
        raise UsageError(f"{folder} is already there and not empty. Choose a folder that is new or empty{resuming}.")


def write_start(folder: Path, graph: Graph, recipe: AnyRecipe) -> None:
    """What a training begins with: with these two, a folder can be resumed."""
    save_graph(graph, folder / GRAPH_FOLDER)
    recipe.save(folder / RECIPE_FILE)


def read_recipe(folder: Path) -> AnyRecipe:
    path = folder / RECIPE_FILE
    if not path.is_file():
        raise TransherError(
            f"{folder} is not a run: it has no {RECIPE_FILE}. Name a folder that a training has left, "
            f"or train one: transher train GRAPH --out {folder} (in Python: transher.train)"
        )
    return load_recipe(path)


def scorer_file(folder: Path, recipe: AnyRecipe) -> Path:
    """What a run answers from."""
    return folder / (RULES_FILE if isinstance(recipe, RuleRecipe) else MODEL_FILE)


def read_scorer(folder: Path, recipe: AnyRecipe, graph: Graph) -> Scorer:
    """What a run answers by."""
    return load_rules(folder, graph.trained) if isinstance(recipe, RuleRecipe) else _embeddings(folder, recipe, graph)


def _embeddings(folder: Path, recipe: Recipe, graph: Graph) -> Embeddings:
    tensors, _ = read_tensors(folder / MODEL_FILE)
    model = build_model(recipe.model)
    relation_rows = len(graph.relations) * (2 if recipe.model.reciprocal else 1)
    expected = {
        "entities": (len(graph.entities), model.entity_width),
        "relations": (relation_rows, model.relation_width),
    }
    for name, shape in expected.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            found = tuple(tensors[name].shape) if name in tensors else "nothing"
            raise InputError(f"has {found} for {name}, where recipe and graph say {shape}.", file=folder / MODEL_FILE)
    return Embeddings(model, tensors["entities"], tensors["relations"], recipe.model.reciprocal)
