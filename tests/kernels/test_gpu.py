"""What only the GPU back end has: sums by occurrence, random words, and its choice by device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kernels.conftest import INTERPRETED, ON_GPU, expect_index_error
from torch.utils._python_dispatch import TorchDispatchMode

from transher import kernels
from transher.graph.graph import Graph
from transher.kernels import gpu
from transher.kernels.choice import back_end_of, chosen_for
from transher.kernels.draws import Stream
from transher.models import MODELS
from transher.training.recipe import Recipe
from transher.training.trainer import Trainer

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


@needs_triton
@pytest.mark.cuda
def test_values_are_summed_by_their_ids() -> None:
    values, ids = torch.randn(900, device=THERE), torch.randint(7, (900,), device=THERE) * 2
    exact = torch.zeros(14, dtype=torch.float64, device=THERE).index_add_(0, ids, values.double())
    assert torch.allclose(kernels.sum_by(values, ids, 14).double(), exact, atol=1e-4)


# Where an operation of torch adds several floats to one place, their order on a GPU is another one each time.
_IN_ANY_ORDER = {
    "aten::index_add",
    "aten::index_add_",
    "aten::scatter_add",
    "aten::scatter_add_",
    "aten::scatter_reduce",
}


class _InOrder(TorchDispatchMode):
    """Refuses what adds floats in any order on a GPU, unless every place gets one."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func._schema.name in _IN_ANY_ORDER and args[0].is_floating_point():
            assert len(args[2].unique()) == args[2].numel(), f"{func} adds to one place several times"
        return func(*args, **(kwargs or {}))


@pytest.mark.skipif(not INTERPRETED, reason="needs triton, the extra `gpu`, and TRITON_INTERPRET=1")
@pytest.mark.parametrize("kind", ["one pool", "their own", "all entities"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_adds_floats_in_a_fixed_order(ring: Graph, name: str, kind: str, tmp_path: Path) -> None:
    everyone = {"training.negatives": "all", "training.loss": "cross-entropy", "training.sampled_softmax": "false"}
    more = {
        "one pool": {"training.n3": "0.01"},
        "their own": {"training.pools": "each"},
        "all entities": everyone | {"training.n3": "0.01"},
    }[kind]
    if kind == "all entities" and not MODELS[name].by_dot_product:
        pytest.skip("takes drawn negatives")
    chosen = {"model.name": name, "model.k": "4", "training.batch": "6", "training.negatives": "3"} | more
    recipe = Recipe().with_settings([f"{key}={value}" for key, value in chosen.items()])
    trainer = Trainer(ring, recipe, tmp_path)
    batch = trainer.batches.make(0)
    with _InOrder():  # type: ignore[no-untyped-call]
        trainer.train_step(batch, 0)


# A number that is 1, below 2³¹ or above it is each compiled in its own way.
@needs_triton
@pytest.mark.cuda
@pytest.mark.parametrize("key", [(0, 2), (1, 1), (2**63 - 1, 4), (2**40, 1)])
@pytest.mark.parametrize(("part", "counter"), [(0, 12), (1, 1), (3, 2**33)])
def test_words_are_those_of_numpys_generator(key: tuple[int, int], part: int, counter: int) -> None:
    expected = np.random.Philox(key=list(key), counter=[0, 0, part, counter]).random_raw(1200)
    found = Stream(key, counter, part).words(1200, THERE)
    assert (found.cpu().numpy().view(np.uint64) == expected).all()
