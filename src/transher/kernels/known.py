"""Known answers of queries, without copying any."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Known(NamedTuple):
    """Known answers of B queries, as slices of one flat index: those of query b are ids[starts[b]:ends[b]]."""

    starts: Tensor  # int64 (B,)
    ends: Tensor  # int64 (B,)
    ids: Tensor  # int32

    @classmethod
    def none(cls, count: int) -> Known:
        """Nothing known of `count` queries."""
        nothing = torch.zeros(count, dtype=torch.int64)
        return cls(nothing, nothing, torch.zeros(0, dtype=torch.int32))

    def checked(self) -> Known:
        """In the types and layout that the native functions read."""
        starts, ends = (part.to(torch.int64).contiguous() for part in (self.starts, self.ends))
        return Known(starts, ends, self.ids.to(torch.int32).contiguous())

    def to(self, device: torch.device) -> Known:
        """The same on another device; there, the index holds what these queries know and nothing else."""
        if self.ids.device == device:
            return self
        _, ids = self.pairs()
        ends = (self.ends - self.starts).cumsum(0)
        return Known((ends - self.ends + self.starts).to(device), ends.to(device), ids.int().to(device))

    def pairs(self) -> tuple[Tensor, Tensor]:
        """Every known answer as (query, id), both int64 (total,), without a loop."""
        counts = self.ends - self.starts
        queries = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        within = torch.arange(len(queries), device=counts.device) - torch.repeat_interleave(
            counts.cumsum(0) - counts, counts
        )
        return queries, self.ids[self.starts[queries] + within].long()
