"""The GPU kernels compile for real targets, to code that keeps to its registers and to few instructions."""

from __future__ import annotations

import importlib.util
import os

import pytest

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton, the extra `gpu`"),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="Triton's interpreter does not compile"),
]


TARGETS = ["sm_80", "sm_86", "sm_90", "gfx942", "gfx1100"]


@pytest.mark.parametrize(
    ("target", "large"), [*((target, False) for target in TARGETS), ("gfx942", True), ("gfx1100", True)]
)
def test_kernels_compile_without_spills_and_to_few_instructions(
    target: str, large: bool, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.gpu_code import LOOPS, compile_for, kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    found = kernels()
    assert found.keys() >= LOOPS.keys()
    for name, kernel in found.items():
        code = compile_for(name, kernel, target, large)
        assert not code.spilled_bytes, name
        if name in LOOPS:
            assert code.per_element is not None
            assert code.per_element <= LOOPS[name].most, f"{name}: {code.per_element} instructions per element"
