from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transher import kernels
from transher.kernels import reference


def gradient(seed: int, rows: int, columns: int) -> torch.Tensor:
    """As unequal as a self-adversarial loss makes it, with zeros and both signs."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(rows, columns, generator=generator) ** 8
    signs = torch.randint(-1, 2, (rows, columns), generator=generator)
    return values * signs


def thinned(values: torch.Tensor, share: float, key: int) -> torch.Tensor:
    scores = torch.zeros_like(values, requires_grad=True)
    kernels.thin(scores, share, key).backward(values)
    assert scores.grad is not None
    return scores.grad


def test_scores_pass_as_they_are() -> None:
    scores = torch.randn(3, 5)
    assert torch.equal(kernels.thin(scores, 0.1, 1), scores)


@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 9),
    columns=st.integers(1, 70),
    share=st.floats(0.05, 1.0),
    key=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60)
def test_every_back_end_keeps_what_the_reference_keeps(
    seed: int, rows: int, columns: int, share: float, key: int
) -> None:
    values = gradient(seed, rows, columns)
    expected = values.clone()
    reference.thin_(expected, share, key)
    torch.testing.assert_close(thinned(values, share, key), expected, rtol=1e-4, atol=1e-7)


def test_about_the_wanted_share_survives_and_the_heaviest_unchanged() -> None:
    values = gradient(0, 200, 256)
    kept = thinned(values, 0.2, 7)
    assert (kept != 0).float().mean().item() == pytest.approx(0.2, abs=0.01)
    heaviest = values.abs().topk(5, dim=1).indices
    assert torch.equal(kept.gather(1, heaviest), values.gather(1, heaviest))


def test_the_mean_over_many_draws_is_the_gradient_itself() -> None:
    values = gradient(1, 4, 64)
    mean = sum(thinned(values, 0.25, 7919 * draw + 5) for draw in range(4000)) / 4000
    assert (mean - values).abs().max() < 0.03 * values.abs().max()


def test_zeros_stay_zeros_and_nan_stays_nan() -> None:
    assert (thinned(torch.zeros(2, 9), 0.3, 1) == 0).all()
    values = gradient(2, 1, 20)
    values[0, 3] = torch.nan
    assert thinned(values, 0.5, 1)[0, 3].isnan()


@pytest.mark.parametrize("k", [1, 7, 16, 33])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.4])
def test_the_backward_pass_over_a_sparse_gradient_is_that_over_a_full_one(k: int, share: float) -> None:
    generator = torch.Generator().manual_seed(k)
    leaves = [torch.randn(n, k, generator=generator, requires_grad=True) for n in (11, 11, 40)]
    upstream = torch.randn(11, 40, generator=generator) * (torch.rand(11, 40, generator=generator) < share)
    kernels.scaled_l1_cross(*leaves).backward(upstream)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    reference.scaled_l1_cross(*exact).backward(upstream.double())
    for leaf, truth in zip(leaves, exact, strict=True):
        torch.testing.assert_close(leaf.grad, truth.grad.float(), rtol=1e-4, atol=1e-5)  # type: ignore[union-attr]
