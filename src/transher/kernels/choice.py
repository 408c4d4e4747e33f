"""Which back end computes: Triton on GPUs, the native module on the CPU, and plain torch for all else."""

from __future__ import annotations

import torch
from torch import Tensor

from transher.kernels import gpu, native
from transher.kernels.interface import Kernels


def back_end_of(device: torch.device) -> Kernels | None:
    """The back end of a device; None for plain torch."""
    kernels = gpu.serving(device)
    if kernels is not None:
        return kernels
    return native.loaded() if device.type == "cpu" and native.serves() else None


def chosen_for(first: Tensor, *others: Tensor) -> Kernels | None:
    """The back end that takes these tensors, float32 on one device; None for plain torch."""
    if any(t.dtype != torch.float32 or t.device != first.device for t in (first, *others)):
        return None
    return back_end_of(first.device)
