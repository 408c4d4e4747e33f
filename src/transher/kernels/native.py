"""The native module: whether it is there, which tensors it serves, and the choice of instruction set.

`TRANSHER_NATIVE=0` switches it off; `TRANSHER_SIMD=avx512|avx2|portable` overrides the choice made from the processor.
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import cast

import torch
from torch import Tensor

from transher.errors import UsageError
from transher.kernels.interface import Native

_warned = False


def _load() -> Native | None:
    if os.environ.get("TRANSHER_NATIVE", "1") == "0":
        return None
    try:
        found = cast(Native, importlib.import_module("transher.kernels._native"))
    except ImportError:
        return None
    name = os.environ.get("TRANSHER_SIMD")
    if name:
        if name not in found.backends():
            raise UsageError(f"TRANSHER_SIMD={name}: this processor and build offer {', '.join(found.backends())}.")
        found.choose(name)
    return found


module = _load()


def loaded() -> Native:
    """The module, where it is known to be there: after `serves`."""
    assert module is not None
    return module


def backend() -> str:
    """Who computes: "avx512", "avx2", "portable" or "torch"."""
    return module.chosen() if module else "torch"


def serves(*tensors: Tensor | None) -> bool:
    """Whether the native module takes these: float32 on the CPU. Says once if there is no native module for them."""
    if not all(t is None or (t.dtype == torch.float32 and t.device.type == "cpu") for t in tensors):
        return False
    if module is None:
        _warn_once()
    return module is not None


def threads() -> int:
    """As many threads as torch may use, so that one setting rules both."""
    return torch.get_num_threads()


def _warn_once() -> None:
    global _warned
    if _warned or os.environ.get("TRANSHER_NATIVE", "1") == "0":
        return
    _warned = True
    warnings.warn(
        "transher was installed without its native kernels (no C++ compiler was found). Everything works through "
        "torch, but training and ranking are many times slower. Install GCC or Clang, then transher again.",
        RuntimeWarning,
        stacklevel=4,
    )
