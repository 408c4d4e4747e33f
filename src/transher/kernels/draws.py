"""Random numbers that depend on a key and a counter alone, the same on every device: those of NumPy's Philox generator.

On a GPU its words are computed there; elsewhere NumPy makes them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from transher.kernels import gpu

_HALF = 0xFFFFFFFF


class Stream(NamedTuple):
    """The words that `np.random.Philox(key=key, counter=[0, 0, part, counter])` gives."""

    key: tuple[int, int]
    counter: int
    part: int = 0

    def words(self, count: int, device: torch.device) -> Tensor:
        """The first words, int64 (count,), as bits; count is a multiple of four."""
        kernels = gpu.serving(device)
        if kernels is not None:
            found = torch.empty(count, dtype=torch.int64, device=device)
            kernels.philox(self.key, (self.part, self.counter), found)
            return found
        generator = np.random.Philox(key=list(self.key), counter=[0, 0, self.part, self.counter])
        return torch.from_numpy(generator.random_raw(count).view(np.int64)).to(device)

    def integers(self, bound: int, count: int, device: torch.device) -> Tensor:
        """int64 (count,), 0 … bound − 1: what `np.random.Generator(...).integers(bound, size=count)` gives. It takes
        half words, multiplies each by the bound and keeps the upper half, and leaves out the few that would make some
        numbers more frequent than others."""
        if bound == 1:
            return torch.zeros(count, dtype=torch.int64, device=device)
        threshold = (2**32 - bound) % bound
        wanted = count + 64 + 2 * count * threshold // 2**32  # more than are ever needed, or nearly
        while True:
            words = self.words(-(-wanted // 8) * 4, device)
            halves = torch.stack([words & _HALF, (words >> 32) & _HALF], 1).view(-1)
            product = halves * bound
            found = (product >> 32)[(product & _HALF) >= threshold]
            if len(found) >= count:
                return found[:count]
            wanted *= 2
