from __future__ import annotations

from importlib import resources

import pytest

from transher.graph.catalogue import BENCHMARKS
from transher.models import build_model
from transher.training.recipe import Recipe
from transher.training.recipe_files import recipe_names

MEASURED = ("transher", "pairre", "rotate", "transe", "distmult", "complex", "seek")


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_loads_builds_its_model_and_says_where_it_comes_from(name: str) -> None:
    recipe = Recipe.load(name)
    assert name.startswith(f"{recipe.model.name}-")
    graph = name.removeprefix(f"{recipe.model.name}-").removesuffix("-paper").removesuffix("-best")
    assert graph in BENCHMARKS
    assert build_model(recipe.model).entity_width >= recipe.model.k
    assert resources.files("transher.recipes").joinpath(f"{name}.toml").read_text("utf-8").startswith("# ")


def test_every_measured_model_has_the_authors_settings_and_ours() -> None:
    wanted = {
        f"{model}-{graph}{kind}" for model in MEASURED for graph in ("fb15k-237", "db100k") for kind in ("", "-paper")
    }
    wanted |= {
        f"{model}-{graph}-paper"
        for model in ("transher", "pairre")
        for graph in ("yago37", "ogbl-wikikg2", "ogbl-biokg")
    }
    assert set(recipe_names()) >= wanted


def test_the_authors_settings_are_as_published() -> None:
    paper = Recipe.load("transher-fb15k-237-paper")
    assert (paper.model.k, paper.model.gamma, paper.model.init, paper.training.translation_l2) == (
        1500,
        6,
        "U_N_N",
        5e-5,
    )
    assert (paper.training.batch, paper.training.negatives, paper.training.pools) == (1024, 256, "each")
    assert (paper.training.optimizer, paper.training.lr, paper.training.schedule) == ("adam", 5e-5, "step")
    assert Recipe.load("pairre-ogbl-biokg-paper").training.typed
    assert Recipe.load("transher-db100k-paper").model.init == "N_U_N"
