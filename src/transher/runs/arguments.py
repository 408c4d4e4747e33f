"""What trainings and searches take in Python: a graph in any form, and a recipe by name, file, model or settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from transher.errors import UsageError
from transher.graph.graph import Graph, Triples
from transher.graph.loading import load_graph
from transher.graph.readers import read_triples
from transher.models.catalogue import DEFAULT_MODEL, RULES
from transher.training.blend_recipe import BlendRecipe
from transher.training.choice_recipe import ChoiceRecipe, ChoiceSettings, can_choose, default_minutes
from transher.training.defaults import default_recipe
from transher.training.rule_recipe import AnyRecipe, RuleRecipe, load_recipe

# Triples in any form that `load_graph` takes.
AnyTriples: TypeAlias = str | Path | pd.DataFrame | pa.Table | NDArray[Any] | Iterable[Sequence[object]]
Settings: TypeAlias = Mapping[str, Any] | Iterable[str]


def graph_from(x: Graph | AnyTriples) -> Graph:
    return x if isinstance(x, Graph) else load_graph(x)


def ids_of(graph: Graph, x: AnyTriples) -> tuple[Triples, int]:
    """Triples in names as ids (n, 3), and how many were left out since the graph lacks one of their names."""
    table = read_triples(x)
    ids = graph.find_triples([table.column(place).combine_chunks() for place in range(3)])
    meant = (ids >= 0).all(1)
    return ids[meant].astype(np.int32), int((~meant).sum())


def recipe_from(
    graph: Graph,
    model: str | None = None,
    settings: Settings | None = None,
    recipe: AnyRecipe | str | Path | None = None,
    minutes: float | None = None,
    *,
    alone: bool = True,
) -> AnyRecipe:
    """The recipe that is given, or else the one that suits the graph and the model, with `settings` put in; a choice
    where nothing is given and one process is `alone`. minutes: of a choice, or of mining."""
    given = () if settings is None else settings if isinstance(settings, Mapping | str) else list(settings)
    chosen: AnyRecipe
    if recipe is None:
        chosen = _default(graph, model, alone and not given)
    else:
        chosen = load_recipe(recipe) if isinstance(recipe, str | Path) else recipe
        if model is not None and model != chosen.model.name:
            raise UsageError(
                f"model={model!r} contradicts recipe, which is for {chosen.model.name!r}: leave one of them out."
            )
    if isinstance(chosen, BlendRecipe):
        raise UsageError("a blend is made of finished runs and not trained: transher blend RUN RUN --out NEW.")
    changed = _within(chosen, minutes).with_settings(given)
    if model is not None and changed.model.name != model:
        raise UsageError(f"model={model!r} contradicts settings, where model.name is {changed.model.name!r}.")
    return changed


def _default(graph: Graph, model: str | None, may_choose: bool) -> AnyRecipe:
    if model == RULES:
        return RuleRecipe()
    if model is None and may_choose and can_choose(graph):
        return ChoiceRecipe(choice=ChoiceSettings(minutes=default_minutes(graph)))
    return default_recipe(graph, model or DEFAULT_MODEL)


def _within(recipe: AnyRecipe, minutes: float | None) -> AnyRecipe:
    """The recipe with as many minutes."""
    if minutes is None:
        return recipe
    if isinstance(recipe, ChoiceRecipe):
        return recipe.with_settings({"choice.minutes": minutes})
    if isinstance(recipe, RuleRecipe):
        return recipe.with_settings({"mining.minutes": minutes})
    raise UsageError(
        f"minutes are for a training that chooses its models, and for rules: {recipe.model.name} takes as many steps "
        "as training.steps says."
    )
