"""The kernels for NVIDIA and AMD GPUs, in Triton: whether they are there, and which tensors they serve.

They need Triton, which comes with torch for CUDA and ROCm, and otherwise with the extra `gpu`. `TRANSHER_TRITON=0`
switches them off. With `TRITON_INTERPRET=1` Triton runs them on the CPU, a program at a time: slowly, for tests.
"""

from __future__ import annotations

import importlib
import os
from functools import cache
from types import SimpleNamespace
from typing import cast

import torch

from transher.kernels.interface import GpuKernels


def _find_device() -> str | None:
    """The kind of device whose tensors the kernels take; AMD's GPUs are called cuda, too."""
    if os.environ.get("TRANSHER_TRITON", "1") == "0":
        return None
    if os.environ.get("TRITON_INTERPRET", "0") == "1":
        return "cpu"
    return "cuda" if torch.cuda.is_available() else None


device_type = _find_device()


def _load() -> GpuKernels | None:
    if device_type is None:
        return None
    try:
        importlib.import_module("triton")
    except ImportError:
        return None
    parts = ("scaled_l1", "modulus", "rows", "ranking", "draws")
    modules = [importlib.import_module(f"{__name__}.{part}") for part in parts]
    return cast(GpuKernels, SimpleNamespace(**{name: vars(part)[name] for part in modules for name in part.__all__}))


module = _load()


def serving(device: torch.device) -> GpuKernels | None:
    """The kernels, if they take tensors of this device."""
    return module if device.type == device_type and _is_recent(device) else None


@cache
def _is_recent(device: torch.device) -> bool:
    """Whether Triton compiles for a GPU: not for NVIDIA's before sm_75, which take plain torch."""
    return device.type != "cuda" or torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (7, 5)
