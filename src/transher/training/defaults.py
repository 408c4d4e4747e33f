"""The recipe that a graph gets when none is given: chosen from the graph and the model, and shown to the user."""

from __future__ import annotations

from typing import Any, NamedTuple

from transher.graph.graph import Graph
from transher.models.catalogue import DEFAULT_MODEL, model_class
from transher.training.recipe import Recipe

_PATIENCE = 2  # validations


class _Size(NamedTuple):
    """Settings that go with the size of a graph. `steps` is an upper bound: training ends when it stops helping."""

    k: int
    steps: int
    batch: int
    negatives: int
    lr: float
    every: int


def default_recipe(graph: Graph, model: str = DEFAULT_MODEL) -> Recipe:
    """Small graphs want many passes in few dimensions, since they overfit before they are slow; large ones want width,
    as far as their triples can fill it. What the model's class sets comes first."""
    kind, size = model_class(model), _size(graph)
    k = min(size.k, kind.largest_default_k or size.k)
    # Validation on FB15k-237 and DB100K gained by both; a small graph is learned before its entities have grown.
    unit = kind.only_direction and len(graph.train) >= 50_000
    # In few passes relations cannot grow to the margin by themselves: DB100K gained by an initialisation there. In many
    # passes FB15k-237 overfitted sooner.
    few_passes = size.steps * size.batch < 50 * len(graph.train)
    typed = graph.entity_types is not None and bool(graph.candidates)
    values: dict[str, dict[str, Any]] = {
        "model": {"name": model, "k": k, "init": "U_U_U", "start_at_margin": unit and few_passes},
        "training": {
            "steps": size.steps,
            "batch": size.batch,
            "negatives": size.negatives,
            "lr": 2 * size.lr if unit else size.lr,
            "relation_rate": 0.25 if unit else 1.0,
            "schedule": "plateau" if len(graph.valid) else "linear",
            "unit_entities": unit,
            # An average is a table more, and passes over all of it.
            "averaging": 0.1 if unit and len(graph.entities) < 200_000 else 0.0,
            "typed": typed,
        },
        "validation": {"every": size.every, "patience": _PATIENCE if len(graph.valid) else 0},
    }
    for setting, value in kind.defaults.items():
        section, _, key = setting.partition(".")
        values.setdefault(section, {})[key] = value
    if typed:  # the entities of one type are not a sample of all
        values["training"]["sampled_softmax"] = False
    return Recipe.parse(values, f"default settings of {model}")


def _size(graph: Graph) -> _Size:
    triples, entities = len(graph.train), max(1, len(graph.entities))
    if triples < 5_000:
        return _Size(64, 6_000, 128, 64, 2e-3, 250)
    if triples < 50_000:
        return _Size(128, 8_000, 512, 128, 2e-3, 250)
    if entities < 200_000:
        # Entities with few triples each cannot fill wide rows.
        return _Size(512 if triples >= 5 * entities else 256, 20_000, 1024, 512, 1e-3, 1_000)
    return _Size(200, 50_000, 1024, 256, 1e-3, 2_500)
