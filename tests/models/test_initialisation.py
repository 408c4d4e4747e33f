from __future__ import annotations

import math

import pytest
import torch

from transher.models import MODELS
from transher.models.initialisation import STRATEGIES, initial_tables, put_at_margin
from transher.models.transher import TranSHER

K, GAMMA = 200, 6.0


def components(strategy: str, xavier: str = "code") -> dict[str, torch.Tensor]:
    entities, relations = initial_tables(TranSHER(K, GAMMA), 3000, 100, strategy, xavier, seed=1)  # type: ignore[arg-type]
    return {"E": entities, "G": relations[:, : 2 * K], "B": relations[:, 2 * K :]}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_component_has_the_distribution_that_its_letter_names(strategy: str) -> None:
    shape = {"E": (3000, K), "G": (100, 2 * K), "B": (100, K)}
    for (part, table), letter in zip(components(strategy).items(), strategy.split("_"), strict=True):
        assert table.shape == shape[part]
        if letter == "U":
            bound = (GAMMA + 2) / K
            assert table.abs().max() <= bound
            assert table.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        else:
            assert table.std() == pytest.approx(math.sqrt(2 / sum(shape[part])), rel=0.02)


def test_there_are_eight_strategies() -> None:
    assert len(set(STRATEGIES)) == 8


def test_the_papers_xavier_depends_on_the_dimension_alone() -> None:
    for table in components("N_N_N", "paper").values():
        assert table.std() == pytest.approx(math.sqrt(2 / K), rel=0.02)


def test_a_seed_gives_the_same_tables_again() -> None:
    model = TranSHER(8, GAMMA)
    first, second = (initial_tables(model, 10, 3, "U_N_N", "code", seed=5) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], initial_tables(model, 10, 3, "U_N_N", "code", seed=6)[0])


@pytest.mark.parametrize("name", MODELS)
def test_every_model_starts_with_finite_tables(name: str) -> None:
    model = MODELS[name](8, GAMMA)
    entities, relations = initial_tables(model, 6, 4, "N_U_N", "code", seed=0)
    assert entities.shape == (6, model.entity_width)
    assert relations.shape == (4, model.relation_width)
    assert entities.isfinite().all()
    assert relations.isfinite().all()


def test_transr_starts_by_seeing_entities_as_they_are() -> None:
    _, relations = initial_tables(MODELS["transr"](3, GAMMA), 4, 2, "U_U_U", "code", seed=0)
    assert torch.equal(relations[0, :9].view(3, 3), torch.eye(3))


@pytest.mark.parametrize("name", ["transher", "pairre"])
@pytest.mark.parametrize("strategy", ["U_N_N", "N_U_N"])
def test_random_triples_can_start_at_the_margin(name: str, strategy: str) -> None:
    model = MODELS[name](64, GAMMA)
    entities, relations = initial_tables(model, 400, 20, strategy, "code", seed=3)
    drawn = relations.clone()
    put_at_margin(model, entities, relations, seed=3)
    multipliers = relations[:, : 2 * model.k] / drawn[:, : 2 * model.k]
    assert multipliers.min().item() == pytest.approx(multipliers.max().item(), rel=1e-5)
    assert torch.equal(relations[:, 2 * model.k :], drawn[:, 2 * model.k :])  # translations stay as they were
    relations[:, 2 * model.k :] = 0
    generator = torch.Generator().manual_seed(0)
    heads, tails = (torch.randint(400, (5000,), generator=generator) for _ in "ht")
    rows = relations[torch.randint(20, (5000,), generator=generator)]
    scores = model.pairs(model.query(model.entities(entities[heads]), rows, "tail"), model.entities(entities[tails]))
    assert scores.mean().item() == pytest.approx(0.0, abs=0.05 * GAMMA)
