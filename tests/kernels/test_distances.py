"""Distances and their gradients, on every back end, against the reference in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kernels.conftest import EXAMPLES, INTERPRETED, expect_index_error
from torch import Tensor

from transher import kernels
from transher.kernels import reference

# Largest error allowed relative to the largest true value: float32 has 6e-8, sums of up to 2,000 terms lose some.
TOLERANCE = 2e-6

dimensions = st.sampled_from([0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 130])
shapes = st.tuples(st.integers(0, 20), st.integers(0, 30), dimensions)
each_back_end = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


def error(got: Tensor, true: Tensor) -> float:
    return float((got.double() - true).abs().max() / true.abs().max().clamp_min(1e-30)) if true.numel() else 0.0


def drawn_gradient(B: int, N: int, thinned: bool) -> Tensor:
    gradient = torch.randn(B, N)
    return gradient * (torch.rand(B, N) < 0.2) if thinned else gradient


def with_gradients(kernel: Callable[..., Tensor], parts: list[Tensor], upstream: Tensor, *rest: Tensor) -> list[Tensor]:
    """Distances and the gradient of each part, in upstream's precision."""
    leaves = [part.detach().to(upstream.dtype).requires_grad_() for part in parts]
    distance = kernel(*leaves, *rest)
    distance.backward(upstream)
    return [distance.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def largest_error(name: str, parts: list[Tensor], upstream: Tensor, *rest: Tensor) -> float:
    """Of a kernel's distances and gradients, against the reference's in float64."""
    got = with_gradients(getattr(kernels, name), parts, upstream, *rest)
    true = with_gradients(getattr(reference, name), parts, upstream.double(), *rest)
    assert all(a.shape == b.shape for a, b in zip(got, true, strict=True))
    return max(error(a, b) for a, b in zip(got, true, strict=True))


@each_back_end
@given(shape=shapes, seed=st.integers(0, 1000))
def test_scaled_l1_agrees_with_float64_on_any_shape(backend: str, shape: tuple[int, int, int], seed: int) -> None:
    B, N, k = shape
    torch.manual_seed(seed)
    q, s, e = torch.randn(B, k), torch.randn(B, k), torch.randn(N, k)
    upstream = torch.randn(B, N)
    assert largest_error("scaled_l1_cross", [q, s, e], upstream) < TOLERANCE
    assert largest_error("scaled_l1_pairs", [q, s, torch.randn(B, k)], upstream.sum(1)) < TOLERANCE


@each_back_end
@given(shape=shapes, rows=st.integers(1, 40), thinned=st.booleans(), seed=st.integers(0, 1000))
def test_candidates_of_their_own_agree_with_float64(
    backend: str, shape: tuple[int, int, int], rows: int, thinned: bool, seed: int
) -> None:
    B, N, k = shape
    torch.manual_seed(seed)
    q, s, e = torch.randn(B, k), torch.randn(B, k), torch.randn(rows, k)
    ids = torch.randint(rows, (B, N))
    assert largest_error("scaled_l1_listed", [q, s, e], drawn_gradient(B, N, thinned), ids) < TOLERANCE
    exact = reference.scaled_l1_cross(q.double(), s.double(), e.double()).gather(1, ids)
    assert error(kernels.scaled_l1_listed(q, s, e, ids), exact) < TOLERANCE


def test_an_index_beyond_the_rows_is_refused(backend: str) -> None:
    q, e = torch.randn(2, 5), torch.randn(3, 5)
    expect_index_error(backend, lambda: kernels.scaled_l1_listed(q, q, e, torch.tensor([[0], [3]])))


@pytest.mark.parametrize(
    ("B", "N", "k"),
    [(70, 35, 66), (1, 3, 1500)] if INTERPRETED else [(35, 300, 513), (5, 1030, 64), (1, 70, 1500), (130, 3, 1100)],
)
def test_scaled_l1_agrees_with_float64_beyond_every_block(backend: str, B: int, N: int, k: int) -> None:
    torch.manual_seed(0)
    parts, upstream = [torch.randn(B, k), torch.randn(B, k), torch.randn(N, k)], torch.randn(B, N)
    assert largest_error("scaled_l1_cross", parts, upstream) < TOLERANCE


@each_back_end
@given(shape=shapes, seed=st.integers(0, 1000))
def test_pairs_have_the_bits_of_cross(backend: str, shape: tuple[int, int, int], seed: int) -> None:
    if backend == "torch":
        pytest.skip("the promise of the native back ends")
    B, N, k = shape
    torch.manual_seed(seed)
    q, s, e = torch.randn(B, k), torch.randn(B, k), torch.randn(N, k)
    cross = kernels.scaled_l1_cross(q, s, e)
    pairs = kernels.scaled_l1_pairs(q.repeat_interleave(N, 0), s.repeat_interleave(N, 0), e.repeat(B, 1))
    assert torch.equal(cross.flatten(), pairs)


@pytest.mark.parametrize("size", [1e30, 1e-40, 0.0])
def test_extreme_values_keep_their_distance(backend: str, size: float) -> None:
    torch.manual_seed(0)
    q, s, e = torch.randn(7, 33) * size, torch.ones(7, 33), torch.randn(9, 33) * size
    got, true = kernels.scaled_l1_cross(q, s, e), reference.scaled_l1_cross(q.double(), s.double(), e.double())
    assert torch.isfinite(got).all()
    assert error(got, true) < (1e-4 if size == 1e-40 else TOLERANCE)  # denormals have few digits


@pytest.mark.parametrize("where", ["q", "s", "e"])
@pytest.mark.parametrize("k", [1, 8, 37])
def test_nan_is_never_hidden(backend: str, where: str, k: int) -> None:
    parts = {"q": torch.randn(7, k), "s": torch.randn(7, k), "e": torch.randn(9, k)}
    parts[where][4, k - 1] = torch.nan
    leaves = {name: part.requires_grad_() for name, part in parts.items()}
    distance = kernels.scaled_l1_cross(*leaves.values())
    affected = distance[:, 4] if where == "e" else distance[4]
    assert affected.isnan().all()
    assert int(distance.isnan().sum()) == affected.numel()
    distance.sum().backward()
    if backend != "torch":  # torch's own sign(NaN) is 0 on some versions
        gradient = leaves[where].grad
        assert gradient is not None
        assert gradient[4, k - 1].isnan()
    pairs = kernels.scaled_l1_pairs(parts["q"].detach(), parts["s"].detach(), parts["e"].detach()[:7])
    assert pairs.isnan().tolist() == [i == 4 for i in range(7)]


def test_the_gradient_at_a_difference_of_zero_is_a_subgradient(backend: str) -> None:
    q = torch.tensor([[1.0, 0.0]], requires_grad=True)
    s, e = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.5, 3.0]])
    distance = kernels.scaled_l1_cross(q, s, e)
    distance.backward(torch.full((1, 1), 0.3))
    assert distance.item() == 0
    assert q.grad is not None
    assert (q.grad.abs() <= 0.3).all()


def test_results_do_not_depend_on_the_number_of_threads(backend: str) -> None:
    torch.manual_seed(0)
    if backend == "triton":
        pytest.skip("Triton's interpreter has no threads")
    parts, upstream = [torch.randn(50, 200), torch.randn(50, 200), torch.randn(70, 200)], torch.randn(50, 70)
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3, 7):
        torch.set_num_threads(threads)
        results.append(with_gradients(kernels.scaled_l1_cross, parts, upstream))
    torch.set_num_threads(before)
    if backend != "torch":
        assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


def test_rows_may_be_strided_and_float64_takes_the_reference(backend: str) -> None:
    wide = torch.randn(6, 60)
    q, s, e = wide[:, :20], wide[:, 20:40], wide[:, 40:]
    assert torch.equal(
        kernels.scaled_l1_cross(q, s, e), kernels.scaled_l1_cross(q.contiguous(), s.contiguous(), e.contiguous())
    )
    assert kernels.scaled_l1_cross(q.double(), s.double(), e.double()).dtype == torch.float64


def test_shapes_that_do_not_fit_are_refused(backend: str) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        kernels.scaled_l1_cross(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(4, 5))


@each_back_end
@given(shape=shapes, thinned=st.booleans(), seed=st.integers(0, 1000))
def test_complex_modulus_agrees_with_float64_on_any_shape(
    backend: str, shape: tuple[int, int, int], thinned: bool, seed: int
) -> None:
    B, N, k = shape
    torch.manual_seed(seed)
    q, e = torch.randn(B, 2 * k), torch.randn(N, 2 * k)
    assert largest_error("complex_modulus_cross", [q, e], drawn_gradient(B, N, thinned)) < TOLERANCE
    if backend != "torch":
        pairs = kernels.complex_modulus_pairs(q.repeat_interleave(N, 0), e.repeat(B, 1))
        assert torch.equal(pairs, kernels.complex_modulus_cross(q, e).flatten())


@each_back_end
@given(shape=shapes, run=st.integers(1, 21), thinned=st.booleans(), seed=st.integers(0, 1000))
def test_pools_of_complex_candidates_are_read_where_they_lie(
    backend: str, shape: tuple[int, int, int], run: int, thinned: bool, seed: int
) -> None:
    B, N, k = shape
    torch.manual_seed(seed)
    B, N = B + 1, N + 1
    q, e = torch.randn(B, 2 * k), torch.randn(N + 3, 2 * k)
    ids = torch.randint(len(e), (-(-B // run), N))  # one row may be in several pools, or twice in one
    assert largest_error("complex_modulus_pools", [q, e], drawn_gradient(B, N, thinned), ids) < TOLERANCE
    if backend != "torch":
        expect_index_error(backend, lambda: kernels.complex_modulus_pools(q, e, ids + len(e)))


def test_complex_modulus_pairs_have_the_gradients_of_cross_and_zero_at_zero(backend: str) -> None:
    torch.manual_seed(0)
    q, e = torch.randn(5, 26), torch.randn(5, 26)
    e[2] = q[2]
    first, second = ([part.clone().requires_grad_() for part in (q, e)] for _ in range(2))
    kernels.complex_modulus_pairs(*first).sum().backward()
    kernels.complex_modulus_cross(*second).diagonal().sum().backward()
    for a, b in zip(first, second, strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert torch.allclose(a.grad, b.grad, atol=1e-6)
        assert (a.grad[2] == 0).all()


@pytest.mark.parametrize("size", [1e15, 1e-15])
def test_extreme_values_keep_their_modulus(backend: str, size: float) -> None:
    torch.manual_seed(0)
    q, e, ids = torch.randn(7, 34) * size, torch.randn(9, 34) * size, torch.randint(9, (7, 5))
    assert largest_error("complex_modulus_cross", [q, e], torch.randn(7, 9)) < TOLERANCE
    assert largest_error("complex_modulus_pools", [q, e], torch.randn(7, 5), ids) < TOLERANCE
    assert largest_error("complex_modulus_pairs", [q, e[:7]], torch.randn(7)) < TOLERANCE


@pytest.mark.parametrize("size", [1e30, 1e-30, 0.0])
def test_extreme_candidates_of_their_own_keep_their_distance(backend: str, size: float) -> None:
    torch.manual_seed(0)
    q, s, e = torch.randn(7, 33) * size, torch.rand(7, 33) + 0.5, torch.randn(9, 33) * size
    ids = torch.randint(9, (7, 5))
    exact = reference.scaled_l1_listed(q.double(), s.double(), e.double(), ids)
    assert error(kernels.scaled_l1_listed(q, s, e, ids), exact) < TOLERANCE


def test_a_nan_reaches_only_the_candidates_of_their_own_that_have_it(backend: str) -> None:
    if backend == "torch":
        pytest.skip("torch's own sign(NaN) is 0 on some versions")
    torch.manual_seed(0)
    q, s, e = torch.randn(6, 37), torch.randn(6, 37), torch.randn(5, 37)
    e[4, 36], ids = torch.nan, torch.randint(4, (6, 11))
    ids[2, 10] = 4
    leaves = q.requires_grad_(), s.requires_grad_(), e.requires_grad_()
    distance = kernels.scaled_l1_listed(q, s, e, ids)
    assert distance.isnan().nonzero().tolist() == [[2, 10]]
    distance.sum().backward()
    for leaf, row in zip(leaves, (2, 2, 4), strict=True):
        assert leaf.grad is not None
        assert set(leaf.grad.isnan().any(1).nonzero().flatten().tolist()) <= {row}
    assert e.grad is not None
    assert e.grad[4, 36].isnan()


def test_complex_modulus_never_hides_nan(backend: str) -> None:
    q, e = torch.randn(4, 20), torch.randn(6, 20)
    e[3, 15] = torch.nan
    assert kernels.complex_modulus_cross(q, e).isnan().any(0).tolist() == [n == 3 for n in range(6)]
