"""A Triton kernel with all that it takes to launch it on a GPU, or to compile it for one that is not there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

# Kernels say themselves where a product and a sum round once (tl.fma): the distance of a pair then has the same bits in
# every kernel. Triton asks for a choice in any case; a user's own is kept.
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "0")


@cache
def _warp_size() -> int:
    """Threads that run in step on the GPU that is there: 64 on AMD's data-centre GPUs, 32 on all others. Asked at the
    first launch: the question takes memory on the GPU, which a program that computes on the CPU does not need."""
    if not torch.cuda.is_available():
        return 32
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return int(getattr(properties, "warp_size", 32))


@dataclass(frozen=True)
class Compiled:
    """`function` is a jitted one; `types` are those of its arguments, `constants` the sizes that it is compiled with,
    and `warps` how many warps share a program. `wide` has the constants and warps where a warp has 64 threads, if they
    differ."""

    function: Any
    types: Mapping[str, str]
    constants: Mapping[str, int]
    warps: int
    wide: tuple[Mapping[str, int], int] | None = None

    def __call__(self, grid: tuple[int, ...], *arguments: Any) -> None:
        """Launch as many programs as the grid says, none where it is empty, where the first argument lies: Triton
        itself takes the thread's present GPU, which in a new thread is the first one."""
        if all(grid):
            here = self.on(_warp_size())
            with torch.cuda.device_of(arguments[0]):
                here.function[grid](*arguments, **here.constants, num_warps=here.warps)

    def on(self, warp_size: int) -> Compiled:
        """The kernel for warps of this size."""
        if warp_size == 32 or self.wide is None:
            return self
        return replace(self, constants=self.wide[0], warps=self.wide[1])

    def size(self, constant: str) -> int:
        """A constant on the GPU that is there."""
        return self.on(_warp_size()).constants[constant]

    def blocks(self, size: int, constant: str) -> int:
        """How many programs cover `size` where each covers as many as the constant says."""
        return -(-size // self.size(constant))
