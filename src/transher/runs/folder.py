"""The run folder: what its files are called, how a new one appears, and its recipe and weights as objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from transher import devices
from transher.blending import Blend, Tallies
from transher.blending.storage import BLEND_FILE, load_weights
from transher.errors import InputError, TransherError, UsageError
from transher.files import whole_folder, writing
from transher.graph.graph import Graph
from transher.graph.storage import save_graph
from transher.models import build_model
from transher.models.embeddings import Embeddings
from transher.rules.storage import RULES_FILE, load_rules
from transher.runs.sharded import is_sharded, sharded_scorer
from transher.scorer import Scorer
from transher.training.blend_recipe import BlendRecipe
from transher.training.checkpoints import MODEL_FILE, read_tensors, refuse_not_finite
from transher.training.choice_recipe import ChoiceRecipe
from transher.training.recipe import Recipe
from transher.training.rule_recipe import AnyRecipe, RuleRecipe, load_recipe
from transher.training.shard_files import MODEL_POINTER

RECIPE_FILE, GRAPH_FOLDER, MANIFEST_FILE = "recipe.toml", "graph", "manifest.json"
MEMBERS_FOLDER = "members"  # of a blend: a whole run in each of the folders 1, 2, …
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
    if isinstance(recipe, Recipe) and is_sharded(folder):
        return folder / MODEL_POINTER
    names: dict[type[AnyRecipe], str] = {Recipe: MODEL_FILE, RuleRecipe: RULES_FILE, BlendRecipe: BLEND_FILE}
    return folder / names[type(recipe)]


def member_folders(folder: Path, recipe: BlendRecipe) -> list[Path]:
    """The folders of the runs that a blend is made of."""
    return [folder / MEMBERS_FOLDER / str(number) for number in range(1, recipe.blend.members + 1)]


def first_trained(folder: Path, recipe: AnyRecipe) -> Recipe | None:
    """The recipe of the training that the first embeddings of a run come from; None without any."""
    if isinstance(recipe, Recipe):
        return recipe
    members = member_folders(folder, recipe) if isinstance(recipe, BlendRecipe) else []
    found = (first_trained(member, read_recipe(member)) for member in members)
    return next((one for one in found if one is not None), None)


def read_scorer(folder: Path, recipe: AnyRecipe, graph: Graph) -> Scorer:
    """What a run answers by."""
    if isinstance(recipe, BlendRecipe):
        members = [read_scorer(member, read_recipe(member), graph) for member in member_folders(folder, recipe)]
        weights = load_weights(folder, len(members), len(graph.relations))
        return Blend(members, weights, None if weights.worth is None else Tallies.of(graph))
    if isinstance(recipe, ChoiceRecipe):
        raise TransherError(
            f"{folder} has nothing to answer by yet: its models are still being chosen. "
            f"Resume with: transher train --out {folder} --resume"
        )
    return load_rules(folder, graph.trained) if isinstance(recipe, RuleRecipe) else _embeddings(folder, recipe, graph)


def _embeddings(folder: Path, recipe: Recipe, graph: Graph) -> Scorer:
    relation_rows = len(graph.relations) * (2 if recipe.model.reciprocal else 1)
    if is_sharded(folder):
        return sharded_scorer(folder, recipe, {"entities": len(graph.entities), "relations": relation_rows})
    tensors, _ = read_tensors(folder / MODEL_FILE)
    model = build_model(recipe.model)
    expected = {
        "entities": (len(graph.entities), model.entity_width),
        "relations": (relation_rows, model.relation_width),
    }
    for name, shape in expected.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            found = tuple(tensors[name].shape) if name in tensors else "nothing"
            raise InputError(f"has {found} for {name}, where recipe and graph say {shape}.", file=folder / MODEL_FILE)
        if tensors[name].dtype != torch.float32:
            raise InputError(f"has {tensors[name].dtype} for {name}, and not float32.", file=folder / MODEL_FILE)
    refuse_not_finite(tensors, folder / MODEL_FILE)
    embeddings = Embeddings(model, tensors["entities"], tensors["relations"], recipe.model.reciprocal)
    return embeddings.on(devices.place(devices.find(recipe.training.device), embeddings.nbytes))
