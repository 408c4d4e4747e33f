"""Launches of the GPU kernels, up to where a GPU would be needed: what Triton makes of their arguments.

Its interpreter takes numbers as they are. A launch makes a constant of a 1, promises that what 16 divides has that
divisor, and takes a number beyond 32 bits as one of 64: each is compiled anew, and each must compile.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton, the extra `gpu`"),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="Triton's interpreter does not compile"),
]


@pytest.fixture(params=[("cuda", 86, 32), ("hip", "gfx942", 64)], ids=["sm_86", "gfx942"])
def launched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A pretended GPU: the names of all kernels that were launched, which are translated, and neither optimised nor
    run."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, make_backend
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    target, names = GPUTarget(*request.param), []

    def translate(
        self: Any, key: Any, signature: Any, device: Any, constants: Any, options: Any, attributes: Any, warmup: bool
    ) -> None:
        context, backend = ir.context(), make_backend(target)
        ir.load_dialects(context)
        backend.load_dialects(context)
        source = ASTSource(self, signature, constants, attributes)
        parts = backend.get_codegen_implementation(options), backend.get_module_map()
        assert source.make_ir(target, options, *parts, context) is not None
        names.append(self.fn.__name__)

    there = SimpleNamespace(
        get_current_device=lambda: request.param[0],
        get_current_stream=lambda device: 0,
        get_current_target=lambda: target,
    )
    monkeypatch.setattr(driver, "_active", there)
    monkeypatch.setattr(JITFunction, "_do_compile", translate)
    monkeypatch.setattr("transher.kernels.gpu.compiled._warp_size", lambda: request.param[2])
    return names


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"transher.kernels.gpu.{name}")


def known(B: int) -> tuple[Tensor, Tensor, Tensor]:
    nothing = torch.zeros(B, dtype=torch.int64)
    return nothing, nothing, torch.zeros(0, dtype=torch.int32)


SIZES = [(5, 7, 9), (1, 1, 1), (16, 16, 16)]  # queries, candidates, coordinates


@pytest.mark.parametrize(("B", "N", "k"), SIZES)
def test_distances_are_launched_with_any_sizes(launched: list[str], B: int, N: int, k: int) -> None:
    own, shared = torch.zeros(B, N, dtype=torch.int64), torch.zeros(1, N, dtype=torch.int64)
    for module, parts, width in (("scaled_l1", 2, k), ("complex_modulus", 1, 2 * k)):
        kernels = module_of("scaled_l1" if parts == 2 else "modulus")
        query, e = tuple(torch.zeros(B, width) for _ in range(parts)), torch.zeros(N, width)
        d_query, de, out = tuple(map(torch.empty_like, query)), torch.empty_like(e), torch.empty(B, N)
        cross, backward, pairs = (getattr(kernels, f"{module}_{kind}") for kind in ("cross", "backward", "pairs"))
        for ids in (None, own, *([shared] if parts == 1 and B > 1 else [])):
            cross(1, query, e, ids, out)
            backward(1, query, e, ids, out, d_query, de)
        pairs(1, query, e[:1].expand(B, width), None, torch.empty(B))
    assert {"_cross", "_pairs", "_listed", "_gradients", "_query_gradients", "_candidate_gradients"} <= {*launched}
    assert {"_listed_gradients", "_listed_query_gradients", "_listed_candidate_gradients"} <= {*launched}


@pytest.mark.parametrize("first", [0, 1, 2**31])
@pytest.mark.parametrize(("B", "N", "k"), SIZES)
def test_counts_and_best_answers_are_launched_with_any_ids(
    launched: list[str], B: int, N: int, k: int, first: int
) -> None:
    ranking, q, e = module_of("ranking"), torch.zeros(B, k), torch.zeros(N, k)
    counts = torch.zeros(2, B, dtype=torch.int64)
    ranking.scaled_l1_count(1, q, q, torch.zeros(B), e, first, *known(B), *counts)
    ranking.scaled_l1_top(
        1, q, q, e, first, *known(B), torch.full((B, 3), torch.inf), torch.zeros(B, 3, dtype=torch.int64)
    )
    assert {"_count", "_uncount", "_cross", "_exclude"} <= {*launched}


@pytest.mark.parametrize("k", [1, 9, 16])
@pytest.mark.parametrize("count", [1, 16, 33])
def test_rows_are_launched_with_any_sizes(launched: list[str], count: int, k: int) -> None:
    rows, table, ids = module_of("rows"), torch.zeros(40, k), torch.arange(count)
    out = torch.zeros(count, k)
    rows.gather_rows(1, table, ids, out)
    rows.sum_rows(out, ids, torch.empty_like(table))
    rows.adam_rows(1, table, table, table, ids, out, 0.1, 0.9, 0.999, 1e-8, 1.0)
    rows.unit_rows(1, table, ids)
    rows.normalise_rows(1, table, torch.empty_like(table))
    rows.mask_known(torch.ones(k, count, dtype=torch.bool), ids, *known(k))
    assert {"_gather", "_sums", "_adam", "_normalise", "_mask_known"} <= {*launched}


@pytest.mark.parametrize("number", [0, 1, 2**31, 2**40, 2**63 - 1])
def test_random_words_are_launched_with_any_key_and_counter(launched: list[str], number: int) -> None:
    module_of("draws").philox((number, 2), (number, number), torch.empty(1200, dtype=torch.int64))
    assert "_philox" in launched


@pytest.mark.parametrize("warp_size", [32, 64])
@pytest.mark.parametrize("k", [1, 15, 16, 17, 127, 128, 129, 200, 255, 256, 257, 1500])
def test_nothing_is_read_beyond_the_room_behind_the_last_row(k: int, warp_size: int) -> None:
    """Blocks of columns are read whole; on a GPU, what lies behind the end of a tensor may be nobody's."""
    from transher.kernels.gpu import layout, modulus, scaled_l1

    rows = torch.zeros(1, k)
    for table, factor, kernels in (
        (layout.aligned(rows), 1, (scaled_l1.QUERY_GRADIENTS, scaled_l1.CANDIDATE_GRADIENTS)),
        (layout.aligned(rows), 1, (scaled_l1.LISTED_QUERY_GRADIENTS,)),
        (layout.interleaved(rows, rows), 2, (scaled_l1.LISTED_CANDIDATE_GRADIENTS,)),
        (layout.aligned(rows), 1, (modulus.GRADIENTS, modulus.LISTED_GRADIENTS)),
        (layout.aligned(rows, scaled_l1.LISTED.constants["COLUMNS"]), 1, (scaled_l1.LISTED, modulus.LISTED)),
    ):
        room = table.untyped_storage().nbytes() // 4
        width = layout.aligned(rows).shape[1] if factor == 2 else table.shape[1]
        for kernel in kernels:
            columns = kernel.on(warp_size).constants["COLUMNS"]
            assert -(-width // columns) * columns * factor <= room
    for kernel in (scaled_l1.QUERY_GRADIENTS, scaled_l1.CANDIDATE_GRADIENTS, modulus.GRADIENTS):
        block = kernel.on(warp_size).constants["ROWS"]
        assert -(-k // block) * block <= layout.roomy(rows).untyped_storage().nbytes() // 4
