"""The pieces of a training step against the general path through autograd, in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.conftest import EXAMPLES, INTERPRETED, expect_index_error
from torch import Tensor

from transher import kernels
from transher.graph.graph import Side
from transher.kernels import Known, Positions, reference
from transher.models import MODELS, Model

Indices = tuple[Tensor, Tensor, Tensor, Tensor]  # anchors, relations, answers, negatives
relaxed = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)

ADAM = kernels.Adam(0.1, 0.9, 0.999, 1e-8, 1)


def close(got: Tensor, true: Tensor, tolerance: float = 1e-5) -> bool:
    if not true.numel():
        return got.shape == true.shape
    return bool((got.double() - true).abs().max() <= tolerance * true.abs().max().clamp_min(0.1))


def example(model: Model, B: int, N: int, U: int, V: int, P: int = 1) -> tuple[Tensor, Tensor, Indices]:
    entity_rows, relation_rows = torch.randn(U, model.k), torch.randn(V, model.relation_width)
    indices = torch.randint(U, (B,)), torch.randint(V, (B,)), torch.randint(U, (B,)), torch.randint(U, (P, N))
    return entity_rows.requires_grad_(), relation_rows.requires_grad_(), indices


@pytest.mark.parametrize("name", ["transher", "pairre", "transe"])
@pytest.mark.parametrize("side", ["head", "tail"])
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize(
    ("B", "N", "k", "U", "V", "P"),
    [
        (1, 1, 2, 1, 1, 1),
        (5, 7, 3, 6, 2, 1),
        (64, 50, 37, 90, 5, 1),
        *([] if INTERPRETED else [(33, 130, 513, 60, 9, 1), (64, 50, 37, 90, 5, 2), (33, 130, 513, 60, 9, 5)]),
        (4, 0, 9, 5, 2, 1),
        (10, 3, 16, 9, 2, 4),
        (4, 0, 9, 5, 2, 2),
        (3, 5, 8, 7, 2, 3),
    ],
)
def test_batch_scores_and_gradients_are_those_of_autograd(
    backend: str, name: str, side: Side, dropped: bool, B: int, N: int, k: int, U: int, V: int, P: int
) -> None:
    torch.manual_seed(B + k)
    model = MODELS[name](k, 6.0)
    entity_rows, relation_rows, indices = example(model, B, N, U, V, P)
    keep = (torch.rand(B, k) < 0.7) / 0.7 if dropped else None
    up_positive, up_negative = torch.randn(B), torch.randn(B, N)
    positive, negative = model.batch_scores(entity_rows, relation_rows, Positions(*indices), side, keep)
    torch.autograd.backward([positive, negative], [up_positive, up_negative])

    exact = [rows.detach().double().requires_grad_() for rows in (entity_rows, relation_rows)]
    true = Model.batch_scores(
        model, exact[0], exact[1], Positions(*indices), side, None if keep is None else keep.double()
    )
    torch.autograd.backward(list(true), [up_positive.double(), up_negative.double()])
    assert close(positive, true[0])
    assert close(negative, true[1])
    for got, wanted in zip((entity_rows, relation_rows), exact, strict=True):
        assert got.grad is not None
        assert wanted.grad is not None
        assert close(got.grad, wanted.grad)


def test_two_batches_may_be_open_at_once_and_backward_may_come_twice(backend: str) -> None:
    torch.manual_seed(0)
    model = MODELS["transher"](40, 6.0)
    first, second = example(model, 9, 11, 12, 3), example(model, 30, 5, 20, 4)
    outputs = [
        model.batch_scores(rows, relations, Positions(*indices), "tail") for rows, relations, indices in (first, second)
    ]
    for (rows, _, _), (positive, negative) in zip((first, second), outputs, strict=True):
        (positive.sum() + negative.sum()).backward(retain_graph=True)
        assert rows.grad is not None
        once = rows.grad.clone()
        (positive.sum() + negative.sum()).backward()
        assert torch.allclose(rows.grad, 2 * once)
    rows, relations, indices = first
    alone = rows.detach().clone().requires_grad_()
    positive, negative = model.batch_scores(alone, relations, Positions(*indices), "tail")
    (positive.sum() + negative.sum()).backward()
    assert alone.grad is not None
    assert rows.grad is not None
    assert torch.allclose(2 * alone.grad, rows.grad)


def test_a_row_of_zeros_has_finite_gradients(backend: str) -> None:
    model = MODELS["transher"](8, 6.0)
    rows, relations = torch.zeros(3, 8, requires_grad=True), torch.randn(1, 24)
    zero = torch.zeros(2, dtype=torch.int64)
    positive, negative = model.batch_scores(rows, relations, Positions(zero, zero, zero + 1, zero[None] + 2), "tail")
    (positive.sum() + negative.sum()).backward()
    assert rows.grad is not None
    assert torch.isfinite(rows.grad).all()


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_thinned_gradients_of_many_pools_are_those_of_autograd(backend: str, share: float) -> None:
    torch.manual_seed(1)
    model = MODELS["transher"](21, 6.0)
    entity_rows, relation_rows, indices = example(model, 50, 30, 80, 4, P=8)  # runs of seven, the last of one
    upstream = torch.randn(50, 30) * (torch.rand(50, 30) < share)
    model.batch_scores(entity_rows, relation_rows, Positions(*indices), "tail")[1].backward(upstream)
    exact = [rows.detach().double().requires_grad_() for rows in (entity_rows, relation_rows)]
    Model.batch_scores(model, exact[0], exact[1], Positions(*indices), "tail")[1].backward(upstream.double())
    for got, wanted in zip((entity_rows, relation_rows), exact, strict=True):
        assert got.grad is not None
        assert wanted.grad is not None
        assert close(got.grad, wanted.grad)


def test_pools_that_do_not_fit_the_positives_are_refused(backend: str) -> None:
    model = MODELS["transher"](8, 6.0)
    rows, relations, indices = example(model, 10, 3, 9, 2, P=7)  # runs of two: there would be five
    with pytest.raises(ValueError, match="cannot be cut"):
        model.batch_scores(rows, relations, Positions(*indices), "tail")


def test_an_index_beyond_the_rows_is_refused(backend: str) -> None:
    model = MODELS["transher"](8, 6.0)
    zero = torch.zeros(2, dtype=torch.int64)
    wrong = Positions(zero, zero, zero + 3, zero[None])
    rows, relations = torch.randn(3, 8), torch.randn(1, 24)
    expect_index_error(backend, lambda: model.batch_scores(rows, relations, wrong, "tail"))


@relaxed
@given(
    shape=st.tuples(st.integers(1, 12), st.integers(0, 40)),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    size=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    masked=st.sampled_from([None, 0.0, 0.3, 1.0]),
    seed=st.integers(0, 99),
)
def test_the_loss_and_its_gradient_are_those_of_autograd(
    backend: str, shape: tuple[int, int], alpha: float, size: float, masked: float | None, seed: int
) -> None:
    torch.manual_seed(seed)
    positive, negative = torch.randn(shape[0]) * size, torch.randn(shape) * size
    valid = None if masked is None else torch.rand(shape) >= masked
    weights = torch.rand(shape[0]) + 0.1
    results = []
    for dtype, loss_of in ((torch.float32, kernels.self_adversarial), (torch.float64, reference.self_adversarial)):
        leaves = [scores.detach().to(dtype).requires_grad_() for scores in (positive, negative)]
        loss = loss_of(leaves[0], leaves[1], valid, weights.to(dtype), alpha)
        (3 * loss).backward()
        results.append([loss.detach()[None], leaves[0].grad, leaves[1].grad])
    assert all(close(got, true) for got, true in zip(*results, strict=True))


def test_rows_without_valid_negatives_add_nothing_and_masked_scores_may_be_anything(backend: str) -> None:
    positive, weights = torch.tensor([0.5, -0.5]), torch.ones(2)
    negative = torch.tensor([[torch.inf, torch.nan, -torch.inf], [1.0, 2.0, 3.0]], requires_grad=True)
    valid = torch.tensor([[False] * 3, [True] * 3])
    loss = kernels.self_adversarial(positive, negative, valid, weights, 1.0)
    share = torch.softmax(torch.tensor([1.0, 2.0, 3.0]), 0)
    expected = -torch.nn.functional.logsigmoid(positive).sum()
    expected = expected - (share * torch.nn.functional.logsigmoid(-negative.detach()[1])).sum()
    assert loss.item() == pytest.approx(expected.item() / 4, rel=1e-5)
    loss.backward()
    assert negative.grad is not None
    assert (negative.grad[0] == 0).all()


def test_a_nan_score_makes_the_loss_nan(backend: str) -> None:
    negative = torch.zeros(2, 5)
    negative[1, 3] = torch.nan
    assert kernels.self_adversarial(torch.zeros(2), negative, None, torch.ones(2), 1.0).isnan()


@pytest.mark.parametrize("k", [1, 8, 13, 200])
def test_adam_on_rows_is_adam(backend: str, k: int) -> None:
    torch.manual_seed(0)
    weight = torch.randn(30, k)
    tables = weight, torch.zeros_like(weight), torch.zeros_like(weight)
    exact = weight.double().clone(), torch.zeros(30, k).double(), torch.zeros(30, k).double()
    dense = weight.double().clone().requires_grad_()
    optimiser = torch.optim.Adam([dense], lr=1e-2)
    for step in range(1, 5):
        ids = torch.randperm(30)
        gradient = torch.randn(30, k)
        kernels.adam_rows(*tables, ids, gradient, kernels.Adam(1e-2, 0.9, 0.999, 1e-8, step))
        reference.adam_rows(*exact, ids, gradient.double(), kernels.Adam(1e-2, 0.9, 0.999, 1e-8, step))
        dense.grad = torch.zeros_like(dense)
        dense.grad[ids] = gradient.double()
        optimiser.step()
    assert all(close(got, true) for got, true in zip(tables, exact, strict=True))
    assert close(weight, dense.detach())


def test_the_first_moments_of_adam_are_exact(backend: str) -> None:
    """1 − β is taken before it is rounded: from a β of float32 it would be wrong in the fifth digit."""
    weight, m, v = torch.zeros(3, 3, 40)
    gradient = torch.randn(3, 40)
    kernels.adam_rows(weight, m, v, torch.arange(3), gradient, ADAM)
    torch.testing.assert_close(m.double(), 0.1 * gradient.double(), rtol=1e-6, atol=0.0)
    torch.testing.assert_close(v.double(), 0.001 * gradient.double().square(), rtol=1e-6, atol=0.0)


def test_adam_leaves_other_rows_alone_and_refuses_ids_beyond_the_table(backend: str) -> None:
    weight = torch.ones(5, 3)
    m, v = torch.zeros(5, 3), torch.zeros(5, 3)
    kernels.adam_rows(weight, m, v, torch.tensor([1, 4]), torch.ones(2, 3), ADAM)
    assert (weight[[0, 2, 3]] == 1).all()
    assert torch.allclose(weight[[1, 4]], torch.tensor(0.9))
    beyond = torch.tensor([5])
    expect_index_error(backend, lambda: kernels.adam_rows(weight, m, v, beyond, torch.ones(1, 3), ADAM))
    expect_index_error(backend, lambda: kernels.gather_rows(weight, beyond))


@pytest.mark.parametrize("k", [1, 8, 13, 200])
def test_chosen_rows_get_length_one_and_others_stay(backend: str, k: int) -> None:
    weight = torch.randn(7, k)
    before, ids = weight.clone(), torch.tensor([6, 0, 3])
    kernels.unit_rows(weight, ids)
    assert close(weight[ids], torch.nn.functional.normalize(before[ids].double()))
    assert torch.equal(weight[[1, 2, 4, 5]], before[[1, 2, 4, 5]])
    zero = torch.zeros(2, k)
    kernels.unit_rows(zero, torch.tensor([1]))
    assert (zero == 0).all()
    expect_index_error(backend, lambda: kernels.unit_rows(weight, torch.tensor([7])))


@relaxed
@given(
    count=st.integers(1, 40),
    k=st.sampled_from([1, 2, 7, 16, 33, 130, 600]),
    size=st.sampled_from([0.0, 1e-15, 1.0, 1e15]),
    seed=st.integers(0, 99),
)
def test_rows_of_any_shape_and_size_are_those_of_float64(
    backend: str, count: int, k: int, size: float, seed: int
) -> None:
    torch.manual_seed(seed)
    weight, ids = torch.randn(count, k) * size, torch.randperm(count)[: count // 2 + 1]
    normalised = torch.nn.functional.normalize(weight.double())
    assert torch.equal(kernels.gather_rows(weight, ids), weight[ids])
    assert close(kernels.normalise(weight), normalised)
    united = weight.clone()
    kernels.unit_rows(united, ids)
    assert close(united[ids], normalised[ids])

    places, upstream = torch.randint(count, (2 * count,)), torch.randn(2 * count, k)
    rows = weight.clone().requires_grad_()
    kernels.take_rows(rows, places).backward(upstream)
    assert rows.grad is not None
    assert close(rows.grad, torch.zeros(count, k).double().index_add_(0, places, upstream.double()))

    m, v, gradient = torch.randn(count, k) * size, torch.rand(count, k) * size**2, torch.randn(len(ids), k) * size
    exact = weight.double(), m.double(), v.double()
    kernels.adam_rows(weight, m, v, ids, gradient, ADAM)
    reference.adam_rows(exact[0], exact[1], exact[2], ids, gradient.double(), ADAM)
    assert all(close(table, true) for table, true in zip((weight, m, v), exact, strict=True))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("k", [0, 1, 5, 64])
def test_rows_are_added_where_they_belong_and_minus_zero_becomes_zero(backend: str, k: int, threads: int) -> None:
    torch.manual_seed(k)
    first, second = torch.randn(30, k), torch.randn(50, k)
    first[::3], second[::2] = -0.0, -0.0
    places = torch.randperm(100)[:30], torch.randperm(100)[:50]
    expected = torch.zeros(100, k).index_add_(0, places[0], first).index_add_(0, places[1], second)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = kernels.add_rows(first, places[0], second, places[1], 100)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.view(torch.int32), expected.view(torch.int32))


def test_gathering_copies_rows(backend: str) -> None:
    weight, ids = torch.randn(9, 5), torch.tensor([8, 0, 0, 3])
    assert torch.equal(kernels.gather_rows(weight, ids), weight[ids])


@relaxed
@given(
    known=st.lists(st.lists(st.integers(0, 20), max_size=8), max_size=10),
    pool=st.lists(st.integers(0, 20), max_size=25),
)
def test_known_answers_in_the_pool_are_masked(backend: str, known: list[list[int]], pool: list[int]) -> None:
    counts = torch.tensor([len(answers) for answers in known], dtype=torch.int64)
    ends = counts.cumsum(0)
    flat = torch.tensor([answer for answers in known for answer in answers], dtype=torch.int32)
    valid = torch.ones(len(known), len(pool), dtype=torch.bool)
    kernels.mask_known(valid, torch.tensor(pool, dtype=torch.int64), Known(ends - counts, ends, flat))
    assert valid.tolist() == [[member not in answers for member in pool] for answers in known]


def test_a_query_that_repeats_masks_the_same_places_every_time(backend: str) -> None:
    answers = torch.randperm(200)[:90].int()  # many enough to be remembered
    starts, ends = torch.tensor([0, 5, 0, 0, 5, 0]), torch.tensor([90, 90, 90, 40, 90, 90])
    pool = torch.randint(200, (60,))
    valid = torch.ones(6, 60, dtype=torch.bool)
    kernels.mask_known(valid, pool, Known(starts, ends, answers))
    for row, start, end in zip(valid.tolist(), starts, ends, strict=True):
        known = set(answers[start:end].tolist())
        assert row == [member not in known for member in pool.tolist()]


@relaxed
@given(ids=st.lists(st.integers(0, 199), max_size=60))
def test_distinct_ids_are_those_of_a_sort(backend: str, ids: list[int]) -> None:
    found, places = kernels.distinct(torch.tensor(ids, dtype=torch.int64), 200)
    assert found.tolist() == sorted(set(ids))
    assert found[places].tolist() == ids


@given(positives=st.integers(1, 300), wanted=st.integers(1, 40))
def test_every_pool_that_is_drawn_has_a_run_of_positives(positives: int, wanted: int) -> None:
    count = kernels.pool_count(positives, wanted)
    run = kernels.run_length(positives, count)
    assert 1 <= count <= wanted
    assert (count - 1) * run < positives <= count * run
