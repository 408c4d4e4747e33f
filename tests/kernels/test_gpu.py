"""What only the GPU back end has: sums by occurrence, random words, and its choice by device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.kernels.conftest import INTERPRETED

from transher import kernels
from transher.kernels import gpu
from transher.kernels.choice import chosen_for
from transher.kernels.draws import Stream

interpreted = pytest.mark.skipif(not INTERPRETED, reason="needs triton, the extra `gpu`, and TRITON_INTERPRET=1")


def test_a_device_without_kernels_of_its_own_takes_plain_torch() -> None:
    rows = torch.empty(3, 4, device="meta")
    assert chosen_for(rows) is None
    assert chosen_for(rows, torch.empty(3, 4)) is None


@interpreted
def test_float32_goes_to_triton_and_float64_to_torch() -> None:
    assert chosen_for(torch.empty(2, 2)) is gpu.module
    assert chosen_for(torch.empty(2, 2, dtype=torch.float64)) is None


@interpreted
@pytest.mark.parametrize("k", [1, 16, 530])
def test_taken_rows_get_the_sum_of_their_gradients_in_order(k: int) -> None:
    rows = torch.randn(7, k, requires_grad=True)
    ids = torch.tensor([3, 0, 3, 3, 6])
    upstream = torch.randn(5, k)
    taken = kernels.take_rows(rows, ids)
    assert torch.equal(taken, rows[ids])
    taken.backward(upstream)
    assert rows.grad is not None
    assert torch.allclose(rows.grad, torch.zeros(7, k).index_add_(0, ids, upstream), atol=1e-6)
    with pytest.raises(IndexError):
        kernels.take_rows(rows, torch.tensor([7]))


@interpreted
@pytest.mark.parametrize("key", [(0, 2), (2**63 - 1, 4)])
def test_words_are_those_of_numpys_generator(key: tuple[int, int]) -> None:
    expected = np.random.Philox(key=list(key), counter=[0, 0, 0, 12]).random_raw(1200)
    found = Stream(key, 12).words(1200, torch.device("cpu"))
    assert (found.numpy().view(np.uint64) == expected).all()
