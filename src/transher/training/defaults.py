"""The recipe that a graph gets when none is given: chosen from its size and the model, and shown to the user."""

from __future__ import annotations

from typing import Any

from transher.graph.graph import Graph
from transher.models.catalogue import DEFAULT_MODEL, model_class
from transher.training.recipe import Recipe


def default_recipe(graph: Graph, model: str = DEFAULT_MODEL) -> Recipe:
    """Settings by size. Small graphs want many passes in few dimensions, since they overfit before they are slow;
    large ones want width, which a table of some gigabytes bounds. What the model's class sets comes first."""
    kind = model_class(model)
    if len(graph.train) < 50_000:
        k, steps, batch, negatives, lr = 128, 4_000, 512, 128, 2e-3
    elif len(graph.entities) < 200_000:
        k, steps, batch, negatives, lr = 512, 20_000, 1024, 512, 1e-3
    else:
        k, steps, batch, negatives, lr = 200, 50_000, 1024, 256, 1e-3
    k = min(k, kind.largest_default_k or k)
    # Validation on FB15k-237 and DB100K gained by both; a small graph is learned before its entities have grown.
    unit = kind.only_direction and len(graph.train) >= 50_000
    # In few passes relations cannot grow to the margin by themselves: DB100K gained by an initialisation there. In many
    # passes FB15k-237 overfitted sooner.
    few_passes = steps * batch < 50 * len(graph.train)
    typed = graph.entity_types is not None and bool(graph.candidates)
    values: dict[str, dict[str, Any]] = {
        "model": {"name": model, "k": k, "init": "U_U_U", "start_at_margin": unit and few_passes},
        "training": {
            "steps": steps,
            "batch": batch,
            "negatives": negatives,
            "lr": 2 * lr if unit else lr,
            "relation_rate": 0.25 if unit else 1.0,
            "unit_entities": unit,
            "averaging": 0.1 if unit and k == 512 else 0.0,  # an average is a table more, and passes over all of it
            "typed": typed,
        },
        "validation": {"every": max(500, steps // 10)},
    }
    for setting, value in kind.defaults.items():
        section, _, key = setting.partition(".")
        values.setdefault(section, {})[key] = value
    return Recipe.parse(values, f"default settings of {model}")
