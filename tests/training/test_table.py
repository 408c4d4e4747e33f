from __future__ import annotations

import pytest
import torch

from transher.training.table import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_only_pushed_rows_change_where_the_optimiser_is_row_sparse(name: str) -> None:
    weight = torch.ones(5, 3)
    table = TABLES[name](weight)
    table.push(torch.tensor([1, 3]), torch.ones(2, 3), 0.1)
    assert (weight[[1, 3]] < 1).all()
    assert (weight[[0, 2, 4]] == 1).all()
    before = weight.clone()
    table.push(torch.tensor([0]), torch.ones(1, 3), 0.1)
    moved_on = bool((weight[1] != before[1]).any())
    assert moved_on == (name == "adam")  # dense Adam goes on with its momentum


@pytest.mark.parametrize(
    ("name", "optimiser"),
    [("sparse-adam", torch.optim.Adam), ("adam", torch.optim.Adam), ("adagrad", torch.optim.Adagrad)],
)
def test_pushing_every_row_is_torchs_optimiser(name: str, optimiser: type[torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    start = torch.randn(6, 4)
    parameter = torch.nn.Parameter(start.clone())
    theirs = optimiser([parameter], lr=0.05)  # type: ignore[call-arg]
    table = TABLES[name](start.clone())
    for _ in range(20):
        gradient = torch.randn(6, 4)
        parameter.grad = gradient.clone()
        theirs.step()
        table.push(torch.arange(6), gradient, 0.05)
    torch.testing.assert_close(table.weight, parameter.detach(), rtol=1e-4, atol=1e-5)


def test_dense_adam_with_some_rows_is_torchs_with_zeros_elsewhere() -> None:
    torch.manual_seed(0)
    start = torch.randn(6, 4)
    parameter = torch.nn.Parameter(start.clone())
    theirs = torch.optim.Adam([parameter], lr=0.05)
    table = TABLES["adam"](start.clone())
    for step in range(20):
        ids = torch.tensor([step % 6, (step + 2) % 6])
        gradient = torch.randn(2, 4)
        parameter.grad = torch.zeros(6, 4).index_copy_(0, ids, gradient)
        theirs.step()
        table.push(ids, gradient, 0.05)
    torch.testing.assert_close(table.weight, parameter.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TABLES)
def test_unit_rows_stay_on_the_sphere(name: str) -> None:
    torch.manual_seed(0)
    table = TABLES[name](torch.randn(6, 4), unit=True)
    before, ids = table.weight.clone(), torch.tensor([4, 1])
    for _ in range(3):
        table.push(ids, torch.randn(2, 4), 0.1)
        torch.testing.assert_close(table.weight[ids].norm(dim=1), torch.ones(2))
    assert torch.equal(table.weight[[0, 2, 3, 5]], before[[0, 2, 3, 5]])


def test_reset_forgets_the_moments() -> None:
    table = TABLES["sparse-adam"](torch.ones(2, 2))
    table.push(torch.tensor([0]), torch.ones(1, 2), 0.1)
    table.reset()
    assert table.updates == 0
    assert all((tensor == 0).all() for tensor in table.state.values())


def test_pulled_rows_are_copies_that_collect_a_gradient() -> None:
    table = TABLES["sparse-adam"](torch.ones(4, 2))
    rows = table.pull(torch.tensor([2, 0]))
    (rows * torch.tensor([[1.0], [2.0]])).sum().backward()
    assert rows.grad is not None
    assert rows.grad.tolist() == [[1, 1], [2, 2]]
    with torch.no_grad():
        rows += 1
    assert (table.weight == 1).all()
