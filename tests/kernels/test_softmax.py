"""Cross-entropy over every candidate: the gradients of plain autograd, in parts of any size."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transher.kernels import softmax
from transher.kernels.softmax import softmax_gradients


def example(queries: int, candidates: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Query, candidates, offsets, answers and weights, with one to all candidates as the answers of a query."""
    generator = torch.Generator().manual_seed(seed)
    query, table = (torch.randn(n, 6, generator=generator) for n in (queries, candidates))
    counts = torch.randint(1, candidates + 1, (queries,), generator=generator)
    own = [torch.randperm(candidates, generator=generator)[:count] for count in counts]
    answers = torch.cat(own)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    return query, table, offsets, answers, torch.rand(len(answers), generator=generator) + 0.1


def dense(query: Tensor, table: Tensor, offsets: Tensor, answers: Tensor, weights: Tensor) -> list[Tensor]:
    """The loss and its two gradients by autograd over all scores at once."""
    query, table = query.double().requires_grad_(), table.double().requires_grad_()
    owners = torch.repeat_interleave(torch.arange(len(query)), offsets.diff())
    loss = -(weights.double() * (query @ table.T).log_softmax(1)[owners, answers]).sum()
    loss.backward()
    assert query.grad is not None
    assert table.grad is not None
    return [loss.detach(), query.grad, table.grad]


@given(queries=st.integers(1, 7), candidates=st.integers(1, 9), held=st.integers(1, 70), seed=st.integers(0, 1 << 20))
def test_loss_and_gradients_are_those_of_autograd_whatever_is_held_at_a_time(
    queries: int, candidates: int, held: int, seed: int
) -> None:
    case = example(queries, candidates, seed)
    found, expected = softmax_gradients(*case, held=held), dense(*case)
    torch.testing.assert_close(torch.tensor(found.loss), expected[0].float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.query, expected[1].float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.candidates, expected[2].float(), rtol=1e-4, atol=1e-4)


def test_bfloat16_products_are_close() -> None:
    case = example(20, 50, 0)
    found, expected = softmax_gradients(*case, precision="bfloat16"), dense(*case)
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        assert (mine - theirs.float()).norm() < 0.02 * theirs.norm()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("held", [1, 40, 100, 1000, 5000])
def test_no_more_scores_are_held_than_the_budget_or_those_of_one_query(held: int, precision: softmax.Precision) -> None:
    sizes = []

    class Watched(softmax.Room):
        def empty(self, name: str, rows: int, columns: int, like: Tensor, dtype: torch.dtype) -> Tensor:
            if columns == 50:
                sizes.append(rows * columns)
            return super().empty(name, rows, columns, like, dtype)

    softmax_gradients(*example(200, 50, 0), precision=precision, held=held, room=Watched())
    assert 0 < max(sizes) <= max(held, 50)


@pytest.mark.parametrize("held", [200, 5000, 1 << 20])
def test_products_of_bfloat16_have_one_shape_for_every_number_of_queries_that_is_about_as_large(held: int) -> None:
    found = set()
    for queries in (65, 90, 127, 128):

        class Watched(softmax.Room):
            def empty(self, name: str, rows: int, columns: int, like: Tensor, dtype: torch.dtype) -> Tensor:
                if name == "narrow":
                    found.add(rows)
                return super().empty(name, rows, columns, like, dtype)

        case, room = example(queries, 50, queries), Watched()
        small = softmax_gradients(*case, precision="bfloat16", held=held, room=room)
        assert (small.query - softmax_gradients(*case).query).norm() < 0.02 * small.query.norm()
    assert found <= {4, 64, 128}


def test_a_gpu_multiplies_as_the_precision_says_and_adds_up_in_float32() -> None:
    gpu, matmul = torch.device("cuda"), torch.backends.cuda.matmul

    def settings() -> tuple[str, bool]:
        return torch.get_float32_matmul_precision(), bool(matmul.allow_bf16_reduced_precision_reduction)

    before = settings()
    expected: dict[softmax.Precision, str] = {"float32": "highest", "tf32": "high", "bfloat16": "highest"}
    for precision, digits in expected.items():
        with softmax._multiplying(gpu, precision):
            assert settings() == (digits, False)
        assert settings() == before
    with softmax._multiplying(torch.device("cpu"), "tf32"):
        assert settings() == before


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_room_that_was_used_before_changes_no_bit(precision: softmax.Precision) -> None:
    room, case, other = softmax.Room(), example(20, 50, 0), example(30, 70, 1)
    alone = softmax_gradients(*case, precision=precision, held=200)
    softmax_gradients(*other, precision=precision, held=200, room=room)
    again = softmax_gradients(*case, precision=precision, held=200, room=room)
    assert again.loss == alone.loss
    assert torch.equal(again.query, alone.query)
    assert torch.equal(again.candidates, alone.candidates)


def test_scores_far_beyond_the_range_of_the_exponential_stay_finite() -> None:
    query, table = torch.full((1, 2), 300.0), torch.tensor([[1.0, 1.0], [-1.0, -1.0]])
    found = softmax_gradients(query, table, torch.tensor([0, 1]), torch.tensor([1]), torch.ones(1))
    assert torch.isfinite(torch.tensor(found.loss))
    torch.testing.assert_close(found.candidates, torch.tensor([[300.0, 300.0], [-300.0, -300.0]]))
