"""Which trainings are tried on a graph when nobody names a model, and how long each may take.

Two families are tried, since neither is best on every graph: models whose score is a distance, and models whose score
is a dot product, trained with a softmax over all entities. Within a family candidates compete. The weight of N3 decides
how good a dot-product model is, and the best weight depends on the graph, so it is searched before anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from transher.graph.graph import Graph
from transher.models.catalogue import TRIED_DISTANCES, TRIED_PRODUCTS, model_class
from transher.training.defaults import default_recipe, takes_all_entities
from transher.training.recipe import Recipe

Family = Literal["distance", "dot"]
FAMILIES: tuple[Family, ...] = ("distance", "dot")
SMALL = 50_000  # triples: below, a training takes seconds, and the best of every model is kept

_N3 = (0.002, 0.007, 0.025, 0.08)
_BETWEEN = 1.9  # from one weight of N3 to halfway to the next
_SHORT_N3 = (0.015, 0.05)  # where time is short; on FB15k-237 .007 overfitted after four passes
_RELATION_PREDICTION = 4.0  # tried on large graphs only: small ones lose by it
# Of a family's seconds, shared by its candidates before the best goes on. On large graphs strong regularisation is
# behind in the first passes and ahead at the end, so they are compared later.
_FIRST, _FIRST_LARGE = 0.3, 0.45
_ENOUGH_PASSES: dict[Family, float] = {"distance": 40, "dot": 12}  # over all triples, before width pays
_WIDER = (1024, 512)  # k of a dot-product model on a small graph once N3 is found, as time allows
_WIDTHS: dict[Family, tuple[int, ...]] = {"distance": (1024, 512, 256, 128), "dot": (512, 256, 128, 64)}
_VALIDATIONS, _PATIENCE = 16, 5


@dataclass(frozen=True)
class Candidate:
    """A training that is tried. `first`: the step at which it is compared with its rivals."""

    label: str  # a folder's name
    title: str
    family: Family
    recipe: Recipe
    first: int


def plan(
    graph: Graph, seconds: float, seed: int, speed: Callable[[Recipe], float], families: Iterable[Family] = FAMILIES
) -> list[Candidate]:
    """The candidates of a graph, whose best ones train to their end within some seconds together. speed: seconds of a
    step by a recipe, as measured on this machine."""
    chosen = list(families)
    share = seconds / max(1, len(chosen))
    return [candidate for family in chosen for candidate in _of_family(graph, family, share, seed, speed)]


def closer(best: Candidate) -> list[Candidate]:
    """Candidates with weights of N3 next to those of the best one so far."""
    n3 = best.recipe.training.n3
    weights = [n3 / _BETWEEN, n3 * _BETWEEN]
    return [_with(best, {"training.n3": float(f"{weight:.2g}")}) for weight in weights]


def wider(best: Candidate, seconds: float, speed: Callable[[Recipe], float]) -> list[Candidate]:
    """The best candidate with the widest vectors that it has time for, up to its end: on kinships ComplEx gained .02 of
    validation MRR. N3 is searched with narrow ones, which take a few seconds."""
    for k in _WIDER:
        candidate = _with(best, {"model.k": k})
        if k > best.recipe.model.k and candidate.recipe.training.steps * speed(candidate.recipe) <= seconds:
            return [candidate]
    return []


def _of_family(
    graph: Graph, family: Family, seconds: float, seed: int, speed: Callable[[Recipe], float]
) -> list[Candidate]:
    small = len(graph.train) < SMALL
    # One model of each family on a large graph: RotatE was at half of TranSHER's MRR and less when time was up.
    names = (TRIED_DISTANCES if family == "distance" else TRIED_PRODUCTS)[: None if small else 1]
    variants: list[tuple[str, dict[str, float]]] = [(name, {}) for name in names]
    if family == "dot":
        weights = _N3 if small else _SHORT_N3
        variants = [(name, {"training.n3": weight}) for name in names for weight in weights]
        if not small and takes_all_entities(graph, model_class(names[0]), typed=False):
            predicting = {"training.n3": _SHORT_N3[-1], "training.relation_prediction": _RELATION_PREDICTION}
            variants.append((names[0], predicting))
    # All of a family, with those of `closer`, are compared within its first share; one of them, or one of each model in
    # a small graph, goes on.
    closer_ones = 2 * len(names) if small and family == "dot" else 0
    first = _FIRST if small else _FIRST_LARGE
    each = seconds * first / (len(variants) + closer_ones)
    going_on = len(names) if small else 1
    whole = each + seconds * (1 - first) / going_on
    bases = {name: _in_time(graph, name, family, whole, seed, speed) for name in names}
    return [_candidate(family, *bases[name], each, settings) for name, settings in variants]


def _in_time(
    graph: Graph, name: str, family: Family, seconds: float, seed: int, speed: Callable[[Recipe], float]
) -> tuple[Recipe, float]:
    """The default recipe of a model, as wide as time allows enough passes for, and the seconds of a step."""
    base = default_recipe(graph, name).with_settings({"training.seed": seed})
    kind, limit = model_class(name), base.model.k
    if len(graph.train) >= SMALL:
        limit = min(2 * limit, kind.largest_default_k or 2 * limit)
    widths = [k for k in _WIDTHS[family] if k <= limit] or [limit]
    if len(graph.train) < SMALL:
        widths = [limit]
    recipe, step = base, 0.0
    for k in widths:
        recipe = base.with_settings({"model.k": k})
        step = speed(recipe)
        if seconds / step >= _ENOUGH_PASSES[family] * _steps_of_pass(graph, recipe):
            break
    steps = int(min(recipe.training.steps, max(seconds / step, _VALIDATIONS)))
    every = max(1, steps // _VALIDATIONS)
    if steps == base.training.steps:  # time does not press
        every = min(every, base.validation.every)
    settings: dict[str, object] = {
        "training.steps": steps,
        "validation.every": every,
        "validation.report_every": max(1, min(base.validation.report_every, every)),
    }
    if family == "dot":
        settings["validation.patience"] = _PATIENCE
    elif len(graph.train) >= SMALL and steps < base.training.steps:
        settings |= {"training.schedule": "linear", "validation.patience": _PATIENCE}
    return recipe.with_settings(settings), step


def _steps_of_pass(graph: Graph, recipe: Recipe) -> float:
    """Steps in which either side of every triple is seen once."""
    sides = 2 if recipe.training.negatives == "all" else 1
    return sides * len(graph.train) / recipe.training.batch


def _candidate(family: Family, base: Recipe, step: float, first: float, settings: dict[str, float]) -> Candidate:
    every = base.validation.every
    paused = max(1, min(round(first / step / every), base.training.steps // every)) * every
    plain = Candidate(base.model.name, model_class(base.model.name).title, family, base, paused)
    return _with(plain, settings) if settings else plain


def _with(candidate: Candidate, settings: dict[str, float]) -> Candidate:
    recipe = candidate.recipe.with_settings(settings)
    said = [f"N3 {recipe.training.n3:g}"]
    if recipe.training.relation_prediction:
        said.append("relation prediction")
    if "model.k" in settings:
        said.append(f"k {recipe.model.k}")
    label = "-".join([recipe.model.name, *said]).replace(" ", "-").lower()
    title = f"{model_class(recipe.model.name).title} ({', '.join(said)})"
    return replace(candidate, label=label, title=title, recipe=recipe)
