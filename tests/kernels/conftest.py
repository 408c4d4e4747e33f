from __future__ import annotations

from collections.abc import Iterator

import pytest

from transher.kernels import native

BACKENDS = native.module.backends() if native.module else ["torch"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every back end that this processor runs; plain torch where the native module is missing or switched off."""
    name = request.param
    if native.module is None:
        yield name
        return
    before = native.module.chosen()
    native.module.choose(name)
    yield name
    native.module.choose(before)
