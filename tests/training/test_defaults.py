from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from transher.models.catalogue import BUILT_IN, model_class
from transher.training.defaults import default_recipe, n3_grid

SMALL, FB15K_237, DB100K, LARGE = (1_000, 200), (272_115, 14_541), (597_572, 99_604), (20_000_000, 2_500_000)


def sized(triples: int, entities: int, valid: int = 100) -> Any:
    return SimpleNamespace(
        train=range(triples),
        valid=range(valid),
        entities=range(entities),
        entity_types=None,
        candidates={},
    )


@pytest.mark.parametrize("size", [SMALL, FB15K_237, DB100K, LARGE])
@pytest.mark.parametrize("model", BUILT_IN)
def test_every_model_has_a_recipe_for_every_size(model: str, size: tuple[int, int]) -> None:
    recipe = default_recipe(sized(*size), model)
    assert recipe.model.name == model
    assert recipe.training.unit_entities == (model_class(model).only_direction and size != SMALL)


def test_what_is_seen_in_few_passes_starts_at_the_margin() -> None:
    starts = [default_recipe(sized(*size)).model.start_at_margin for size in (SMALL, FB15K_237, DB100K, LARGE)]
    assert starts == [False, False, True, True]


def test_tables_of_large_graphs_stay_small() -> None:
    recipe = default_recipe(sized(*LARGE))
    assert 4 * recipe.model.k * LARGE[1] <= 4e9
    assert recipe.training.averaging == 0


def test_a_graph_with_validation_triples_is_trained_until_they_stop_improving() -> None:
    watched, unwatched = default_recipe(sized(*SMALL)), default_recipe(sized(*SMALL, valid=0))
    assert (watched.training.schedule, watched.validation.patience) == ("plateau", 2)
    assert (unwatched.training.schedule, unwatched.validation.patience) == ("linear", 0)


def test_entities_with_few_triples_get_narrower_rows_than_as_many_triples_of_few_entities() -> None:
    sparse, dense = default_recipe(sized(70_000, 30_000)), default_recipe(sized(70_000, 3_000))
    assert sparse.model.k < dense.model.k


DOT_MODELS = [model for model in BUILT_IN if model_class(model).by_dot_product]


@pytest.mark.parametrize("model", DOT_MODELS)
def test_a_dot_product_takes_all_entities_as_candidates_where_there_are_not_too_many(model: str) -> None:
    negatives = [default_recipe(sized(*size), model).training.negatives for size in (SMALL, FB15K_237, DB100K, LARGE)]
    assert negatives[:2] == ["all", "all"]
    assert all(isinstance(count, int) for count in negatives[2:])


def test_typed_negatives_are_drawn() -> None:
    typed = sized(*SMALL)
    typed.entity_types, typed.candidates = range(200), {"valid": ()}
    assert default_recipe(typed, "complex").training.negatives != "all"


def test_what_a_class_sets_itself_decides_over_the_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = model_class("distmult")
    for own in (
        {"training.loss": "margin", "training.sampled_softmax": False},
        {"training.negatives": 7},
        {"training.dropout": 0.1},
    ):
        monkeypatch.setattr(kind, "defaults", {**kind.defaults, **own})
        assert default_recipe(sized(*SMALL), "distmult").training.negatives != "all"
        monkeypatch.undo()


def test_a_number_of_negatives_turns_a_default_softmax_into_a_sampled_one() -> None:
    sampled = default_recipe(sized(*FB15K_237), "complex").with_settings(["training.negatives=64"]).training
    assert (sampled.negatives, sampled.sampled_softmax) == (64, True)


def test_the_grid_of_n3_holds_the_recipe_itself_and_weights_around_it() -> None:
    recipe = default_recipe(sized(*SMALL), "complex")
    weights = [one.training.n3 for one in n3_grid(recipe)]
    assert recipe.training.n3 in weights
    assert min(weights) < recipe.training.n3 < max(weights)
    assert all(one.with_settings({"training.n3": recipe.training.n3}) == recipe for one in n3_grid(recipe))
