from __future__ import annotations

from collections.abc import Iterator

import pytest

from transher.kernels import gpu, native

INTERPRETED = gpu.module is not None and gpu.device_type == "cpu"
BACKENDS = ["triton"] if INTERPRETED else native.module.backends() if native.module else ["torch"]


# Triton's interpreter takes a hundred times as long, and goes through each kernel's blocks with smaller shapes.
EXAMPLES = 5 if INTERPRETED else 30


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every back end that this processor runs; plain torch where the native module is missing or switched off, and only
    Triton where its interpreter is on."""
    name = request.param
    if native.module is None or INTERPRETED:
        yield name
        return
    before = native.module.chosen()
    native.module.choose(name)
    yield name
    native.module.choose(before)
