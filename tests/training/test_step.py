from __future__ import annotations

import torch

from transher.graph.graph import Graph
from transher.models import build_model
from transher.models.initialisation import initial_tables
from transher.training.batches import Batches
from transher.training.recipe import Recipe
from transher.training.step import TrainingStep
from transher.training.table import SparseAdamTable

RECIPE = Recipe().with_settings(["model.k=8", "training.batch=32", "training.negatives=8", "training.lr=0.1"])


def step_of(graph: Graph, free: tuple[torch.Tensor, torch.Tensor] | None = None) -> TrainingStep:
    model = build_model(RECIPE.model)
    tables = initial_tables(model, len(graph.entities), len(graph.relations), "U_N_N", "code", seed=0)
    batches = Batches(graph, RECIPE.training, reciprocal=False)
    entities, relations = (SparseAdamTable(table) for table in tables)
    return TrainingStep(model, RECIPE.training, batches, entities, relations, free)


def test_rows_that_are_not_free_stay_and_the_others_move_as_ever(ring: Graph) -> None:
    free = torch.arange(len(ring.entities)) >= 30, torch.tensor([True, False, False])
    step, held = step_of(ring), step_of(ring, free)
    before = [table.weight.clone() for table in (step.entities, step.relations)]
    batch = step.batches.at(0)
    assert step(batch, 0) == held(batch, 0)
    for table, other, old, moves in zip(
        (step.entities, step.relations), (held.entities, held.relations), before, free, strict=True
    ):
        assert torch.equal(other.weight[~moves], old[~moves])
        assert not torch.equal(table.weight[~moves], old[~moves])
        assert torch.equal(other.weight[moves], table.weight[moves])


def test_a_step_tells_the_spread_of_its_gradients_when_asked(ring: Graph) -> None:
    step, spread = step_of(ring), dict[str, float]()
    step(step.batches.at(0), 0, spread)
    assert spread.keys() == {"entities", "relations"}
    assert all(value > 0 for value in spread.values())
