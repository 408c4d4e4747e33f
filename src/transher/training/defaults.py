"""The recipe that a graph gets when nobody gives one: chosen from its size, and shown to whoever trains."""

from __future__ import annotations

from transher.graph.graph import Graph
from transher.training.recipe import DIRECTIONS, Recipe


def default_recipe(graph: Graph, model: str = "transher") -> Recipe:
    """Settings by size. Small graphs want many passes in few dimensions, since they overfit before they are slow;
    large ones want width, which a table of some gigabytes bounds."""
    if len(graph.train) < 50_000:
        k, steps, batch, negatives, lr = 128, 4_000, 512, 128, 2e-3
    elif len(graph.entities) < 200_000:
        k, steps, batch, negatives, lr = 512, 20_000, 1024, 512, 1e-3
    else:
        k, steps, batch, negatives, lr = 200, 50_000, 1024, 256, 1e-3
    if model in ("rescal", "transr"):  # k·k numbers a relation
        k = min(k, 64)
    # On FB15k-237 a tenth of the gradients gave the validation MRR of all. Only the scaled-L1 kernel gains by it.
    share = 0.1 if model in ("transher", "pairre", "transe") else 1.0
    # Validation on FB15k-237 and DB100K gained by both; a small graph is learnt before its entities have grown.
    unit = model in DIRECTIONS and len(graph.train) >= 50_000
    # In few passes relations cannot grow to the margin by themselves: DB100K gained by a start there. In many passes
    # FB15k-237 learnt by heart sooner.
    few_passes = steps * batch < 50 * len(graph.train)
    typed = graph.entity_types is not None and bool(graph.candidates)
    return Recipe.parse(
        {
            "model": {
                "name": model,
                "k": k,
                "gamma": _GAMMA.get(model, 6.0),
                "init": _INIT.get(model, "U_U_U"),
                "start_at_margin": unit and few_passes,
            },
            "training": {
                "steps": steps,
                "batch": batch,
                "negatives": negatives,
                "lr": 2 * lr if unit else lr,
                "relation_rate": 0.25 if unit else 1.0,
                "unit_entities": unit,
                "averaging": 0.1 if unit and k == 512 else 0.0,  # an average is a table more, and passes over all of it
                "typed": typed,
                "gradient_share": share,
            },
            "validation": {"every": max(500, steps // 10)},
        },
        "settings",
    )


# From the authors' settings for FB15k-237 where they give any.
_GAMMA = {"transe": 9.0, "rotate": 9.0, "transe-l2": 9.0, "transh": 9.0, "transr": 9.0, "complex": 200.0,
          "distmult": 200.0}  # fmt: skip
_INIT = {"transher": "U_N_N"}
