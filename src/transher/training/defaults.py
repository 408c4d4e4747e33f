"""The recipe that a graph gets when none is given: chosen from the graph and the model, and shown to the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from transher.graph.graph import Graph
from transher.models.catalogue import DEFAULT_MODEL, model_class
from transher.training.recipe import Recipe

if TYPE_CHECKING:
    from transher.models.model import Model

_PATIENCE = 2  # validations


# Triples · entities · width beyond which candidates are drawn: a pass takes some minutes on two cores.
_LARGEST_PASS = 1e13
_N3_FACTORS = (0.1, 0.3, 1.0, 3.0)


class _Size(NamedTuple):
    """Settings that go with the size of a graph. `steps` is an upper bound: training ends when it stops helping."""

    k: int
    steps: int
    batch: int
    negatives: int
    lr: float
    every: int


class _SoftmaxSize(NamedTuple):
    """The same for a softmax over all entities; `passes` over all queries, with a validation after `every`."""

    k: int
    passes: int
    batch: int
    n3: float
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
            "n3": 0.03 if kind.by_dot_product else 0.0,
        },
        "validation": {"every": size.every, "patience": _PATIENCE if len(graph.valid) else 0},
    }
    if takes_all_entities(graph, kind, typed):
        for section, settings in _softmax_settings(graph, kind).items():
            values[section] |= settings
    for setting, value in kind.defaults.items():
        section, _, key = setting.partition(".")
        values.setdefault(section, {})[key] = value
    if typed:  # the entities of one type are not a sample of all
        values["training"]["sampled_softmax"] = False
    return Recipe.parse(values, f"default settings of {model}")


def n3_grid(recipe: Recipe) -> list[Recipe]:
    """The recipe with weights of N3 from a tenth to three times its own. No other setting of a dot-product model
    matters as much, and the best one depends on the graph: train each for some passes and keep the best by validation.
    """
    return [recipe.with_settings({"training.n3": recipe.training.n3 * factor}) for factor in _N3_FACTORS]


def takes_all_entities(graph: Graph, kind: type[Model], typed: bool) -> bool:
    """Whether a model is trained by default with a softmax over all entities: where its score is a dot product, its
    class asks for nothing else, and the graph is not too large."""
    given = kind.defaults
    fits = kind.by_dot_product and given.get("training.loss") == "cross-entropy" and not typed
    asks_otherwise = any(f"training.{name}" in given for name in ("negatives", "dropout", "gradient_share"))
    cost = len(graph.train) * len(graph.entities) * 2 * _softmax_size(graph).k
    return fits and not asks_otherwise and cost <= _LARGEST_PASS


def _softmax_settings(graph: Graph, kind: type[Model]) -> dict[str, dict[str, Any]]:
    """What a softmax over all entities wants instead: fewer and larger steps."""
    from transher import kernels  # with torch, which a recipe's model brings in any case

    size = _softmax_size(graph)
    steps_per_pass = max(1, -(-2 * len(graph.train) // size.batch))
    return {
        "model": {"k": min(size.k, kind.largest_default_k or size.k)},
        "training": {
            "negatives": "all",
            "batch": size.batch,
            "steps": size.passes * steps_per_pass,
            "n3": size.n3,
            # Adagrad slows down by itself. To drop the learning rate when validation pauses ended `world` .02 lower.
            "schedule": "constant",
            "precision": "bfloat16" if kernels.has_bfloat16() else "float32",
        },
        "validation": {
            "every": size.every * steps_per_pass,
            "report_every": min(100, steps_per_pass),
            "patience": 2 * _PATIENCE if len(graph.valid) else 0,
        },
    }


def _softmax_size(graph: Graph) -> _SoftmaxSize:
    """N3 is in the middle of what validation wanted: .003 to .1 on parts of FB15k-237, .03 and more on parts of genes
    and on `world`, and .01 or less where answers are easy. Relation prediction is left out: it cost .02 on `world` and
    .06 on a part of FB15k-237, though all of FB15k-237 gains by it."""
    triples = len(graph.train)
    if triples < 50_000:
        return _SoftmaxSize(200, 100, max(100, min(1000, triples // 10)), 0.02, 5)
    return _SoftmaxSize(256, 40, 1000, 0.03, 2)


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
