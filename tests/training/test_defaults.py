from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from transher.models.catalogue import BUILT_IN, model_class
from transher.training.defaults import default_recipe

SMALL, FB15K_237, DB100K, LARGE = (1_000, 200), (272_115, 14_541), (597_572, 99_604), (20_000_000, 2_500_000)


def sized(triples: int, entities: int, valid: int = 100) -> Any:
    return SimpleNamespace(
        train=range(triples), valid=range(valid), entities=range(entities), entity_types=None, candidates={}
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
