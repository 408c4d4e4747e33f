"""Every model learns with its default settings: only the number of steps is cut, for the sake of time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import make_graph

from transher.graph import load_graph
from transher.graph.graph import Graph
from transher.kernels import native
from transher.models.catalogue import model_class, model_names
from transher.training.defaults import default_recipe
from transher.training.trainer import Trainer

pytestmark = pytest.mark.skipif(native.module is None, reason="takes many minutes without the native module")


def best_mrr(graph: Graph, model: str, steps: int, folder: Path) -> float:
    recipe = default_recipe(graph, model).with_settings([f"training.steps={steps}", "validation.sample=200"])
    trainer = Trainer(graph, recipe, folder)
    trainer.run()
    assert trainer.progress.best_mrr is not None
    return trainer.progress.best_mrr


def grid(side: int = 12) -> Graph:
    """Places on a grid: to the east, to the south, and the same row; every tenth triple is held out."""
    triples = [(i, 0, i + 1) for i in range(side * side) if (i + 1) % side]
    triples += [(i, 1, i + side) for i in range(side * (side - 1))]
    triples += [(i, 2, side * side + i // side) for i in range(side * side)]
    order = np.random.default_rng(0).permutation(len(triples))
    held_out = set(order[: len(triples) // 10].tolist())
    parts = [[t for i, t in enumerate(triples) if (i in held_out) == out] for out in (False, True)]
    return make_graph(parts[0], parts[1][::2], parts[1][1::2])


@pytest.mark.parametrize("model", model_names())
def test_far_above_chance_on_countries_and_cities(model: str, tmp_path: Path) -> None:
    steps = 100 if model_class(model).by_dot_product else 700  # those go over all entities, and take their time
    assert best_mrr(load_graph("world"), model, steps, tmp_path) > 0.1  # guessing gives .003


@pytest.mark.parametrize("model", model_names())
def test_far_above_chance_on_a_small_generated_graph(model: str, tmp_path: Path) -> None:
    assert best_mrr(grid(), model, 1500, tmp_path) > 0.15  # guessing gives .035


def test_a_softmax_over_all_entities_is_far_above_drawn_negatives_within_five_passes(tmp_path: Path) -> None:
    assert best_mrr(load_graph("world"), "complex", 105, tmp_path) > 0.43  # drawn negatives end at .40
