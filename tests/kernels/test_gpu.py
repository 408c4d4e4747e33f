"""What only the GPU back end has: sums by occurrence, random words, and its choice by device."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.kernels.conftest import INTERPRETED, ON_GPU, expect_index_error

from transher import kernels
from transher.kernels import gpu
from transher.kernels.choice import back_end_of, chosen_for
from transher.kernels.draws import Stream

THERE = torch.device("cuda" if ON_GPU else "cpu")
needs_triton = pytest.mark.skipif(
    not INTERPRETED and not ON_GPU, reason="needs triton, the extra `gpu`, and a GPU or TRITON_INTERPRET=1"
)


def test_a_device_without_kernels_of_its_own_takes_plain_torch() -> None:
    rows = torch.empty(3, 4, device="meta")
    assert chosen_for(rows) is None
    assert chosen_for(rows, torch.empty(3, 4)) is None


@pytest.mark.parametrize(("capability", "served"), [((7, 0), False), ((7, 5), True), ((9, 0), True)])
def test_gpus_that_triton_does_not_compile_for_take_plain_torch(
    capability: tuple[int, int], served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels_there = object()
    monkeypatch.setattr(gpu, "module", kernels_there)
    monkeypatch.setattr(gpu, "device_type", "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    gpu._is_recent.cache_clear()
    assert back_end_of(torch.device("cuda", 0)) is (kernels_there if served else None)
    gpu._is_recent.cache_clear()


@needs_triton
@pytest.mark.cuda
def test_float32_goes_to_triton_and_float64_to_torch() -> None:
    assert chosen_for(torch.empty(2, 2, device=THERE)) is gpu.module
    assert chosen_for(torch.empty(2, 2, device=THERE, dtype=torch.float64)) is None


@needs_triton
@pytest.mark.cuda
@pytest.mark.parametrize("k", [1, 16, 530])
def test_taken_rows_get_the_sum_of_their_gradients_in_order(k: int) -> None:
    rows = torch.randn(7, k, device=THERE, requires_grad=True)
    ids = torch.tensor([3, 0, 3, 3, 6], device=THERE)
    upstream = torch.randn(5, k, device=THERE)
    taken = kernels.take_rows(rows, ids)
    assert torch.equal(taken, rows[ids])
    taken.backward(upstream)
    assert rows.grad is not None
    assert torch.allclose(rows.grad, torch.zeros_like(rows).index_add_(0, ids, upstream), atol=1e-6)
    expect_index_error(THERE.type, lambda: kernels.take_rows(rows, ids + 4))


# A number that is 1, below 2³¹ or above it is each compiled in its own way.
@needs_triton
@pytest.mark.cuda
@pytest.mark.parametrize("key", [(0, 2), (1, 1), (2**63 - 1, 4), (2**40, 1)])
@pytest.mark.parametrize(("part", "counter"), [(0, 12), (1, 1), (3, 2**33)])
def test_words_are_those_of_numpys_generator(key: tuple[int, int], part: int, counter: int) -> None:
    expected = np.random.Philox(key=list(key), counter=[0, 0, part, counter]).random_raw(1200)
    found = Stream(key, counter, part).words(1200, THERE)
    assert (found.cpu().numpy().view(np.uint64) == expected).all()
