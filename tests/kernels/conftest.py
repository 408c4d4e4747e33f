from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from transher.kernels import gpu, native

INTERPRETED = gpu.module is not None and gpu.device_type == "cpu"
ON_GPU = gpu.module is not None and gpu.device_type == "cuda"
BACKENDS = ["triton"] if INTERPRETED else native.module.backends() if native.module else ["torch"]
ON_THE_GPU = [pytest.param("cuda", marks=pytest.mark.cuda)] if ON_GPU else []


# Triton's interpreter takes a hundred times as long, and goes through each kernel's blocks with smaller shapes.
EXAMPLES = 5 if INTERPRETED else 30


@pytest.fixture(params=[*BACKENDS, *ON_THE_GPU])
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every back end that this machine runs: those of its processor, or plain torch where the native module is missing
    or switched off, and Triton's on its GPU, where the test's tensors are then made. Only Triton where its interpreter
    is on."""
    if request.param != "cuda":
        with _chosen(request.param):
            yield request.param
        return
    torch.set_default_device("cuda")
    try:
        yield "cuda"
    finally:
        torch.set_default_device(None)


@pytest.fixture(params=BACKENDS)
def cpu_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """As `backend`, of the processor alone."""
    with _chosen(request.param):
        yield request.param


@contextmanager
def _chosen(name: str) -> Iterator[None]:
    if native.module is None or INTERPRETED:
        yield
        return
    before = native.module.chosen()
    native.module.choose(name)
    yield
    native.module.choose(before)


def expect_index_error(backend: str, work: Callable[[], object]) -> None:
    """A wrong id is refused. On a GPU it ends the program, and is not tried."""
    if backend != "cuda":
        with pytest.raises(IndexError, match="index"):
            work()
