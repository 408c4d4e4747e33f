"""Counting better candidates and finding the nearest, in Triton: no scores of all entities are held."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from transher.kernels.gpu.compiled import Compiled
from transher.kernels.gpu.scaled_l1 import (
    STEP,
    TILE,
    WIDE_TILE,
    cross_transposed,
    packed_candidates,
    packed_queries,
    tile_distances,
)

__all__ = ["scaled_l1_count", "scaled_l1_top"]

_HELD = 1 << 24  # distances that `scaled_l1_top` holds at a time: 64 MB, and 128 MB to sort them by
_UNUSED = 0xFFFFFFFF


@triton.jit
def _count(qs, e, limits, better, tied, B, N, k, QUERIES: tl.constexpr, CANDIDATES: tl.constexpr, STEP: tl.constexpr):
    """Packed queries and candidates, limits (B,) → adds to better and tied (B,). The order in which whole numbers are
    added changes nothing."""
    block, block_of_queries = tl.program_id(0), tl.program_id(1)
    found = tile_distances(
        qs + block_of_queries.to(tl.int64) * k * 2 * QUERIES,
        e + block.to(tl.int64) * k * CANDIDATES,
        k,
        QUERIES,
        CANDIDATES,
        STEP,
    )
    n = block * CANDIDATES + tl.arange(0, CANDIDATES)
    b = block_of_queries * QUERIES + tl.arange(0, QUERIES)
    limit = tl.load(limits + b, mask=b < B, other=0.0)[None, :]
    nearer = tl.sum(((found < limit) & (n < N)[:, None]).to(tl.int64), 0)
    same = tl.sum(((found == limit) & (n < N)[:, None]).to(tl.int64), 0)
    tl.atomic_add(better + b, nearer, mask=b < B)
    tl.atomic_add(tied + b, same, mask=b < B)


@triton.jit
def _uncount(
    q, s, e, limits, first_id, starts, ends, known, better, tied, N, k, ROWS: tl.constexpr, STEP: tl.constexpr
):
    """Takes known answers off the counts of a query, by the distance that `_count` has found; rows (B, k), (N, k)."""
    b = tl.program_id(0).to(tl.int64)
    limit, last = tl.load(limits + b), tl.load(ends + b)
    nearer, same = tl.zeros([ROWS], tl.int64), tl.zeros([ROWS], tl.int64)
    for first in range(tl.load(starts + b), last, ROWS):
        place = first + tl.arange(0, ROWS)
        row = tl.load(known + place, mask=place < last, other=-1).to(tl.int64) - first_id
        here = (place < last) & (row >= 0) & (row < N)
        if tl.sum(here.to(tl.int32), 0) > 0:  # most lie in other chunks
            total = tl.zeros([ROWS], tl.float32)
            for column in range(0, k, STEP):
                run = tl.zeros([ROWS], tl.float32)
                for i in range(STEP):
                    x = tl.load(e + row * k + column + i, mask=here, other=0.0)
                    own, scale = tl.load(q + b * k + column + i), tl.load(s + b * k + column + i)
                    run += tl.abs(tl.fma(-scale, x, own))
                total += run
            nearer += ((total < limit) & here).to(tl.int64)
            same += ((total == limit) & here).to(tl.int64)
    tl.store(better + b, tl.load(better + b) - tl.sum(nearer, 0))
    tl.store(tied + b, tl.load(tied + b) - tl.sum(same, 0))


@triton.jit
def _exclude(distances, first_id, starts, ends, excluded, N, ROWS: tl.constexpr):
    """distances[b, id − first_id] = ∞ for the excluded ids of each query; distances: (B, N)."""
    b = tl.program_id(0).to(tl.int64)
    last = tl.load(ends + b)
    for first in range(tl.load(starts + b), last, ROWS):
        place = first + tl.arange(0, ROWS)
        row = tl.load(excluded + place, mask=place < last, other=-1).to(tl.int64) - first_id
        here = (place < last) & (row >= 0) & (row < N)
        tl.store(distances + b * N + row, tl.full([ROWS], float("inf"), tl.float32), mask=here)


_FLOATS = dict.fromkeys(("qs", "q", "s", "e", "limits", "distances"), "*fp32")
_IDS = dict.fromkeys(("better", "tied", "starts", "ends"), "*i64") | dict.fromkeys(("known", "excluded"), "*i32")
_TYPES = _FLOATS | _IDS | dict.fromkeys(("B", "N", "k"), "i32") | {"first_id": "i64"}

COUNT = Compiled(_count, _TYPES, TILE, 2, wide=(WIDE_TILE, 1))
UNCOUNT = Compiled(_uncount, _TYPES, {"ROWS": 32, "STEP": STEP}, 1)
EXCLUDE = Compiled(_exclude, _TYPES, {"ROWS": 128}, 4)


def scaled_l1_count(
    threads: int,
    q: Tensor,
    s: Tensor,
    limits: Tensor,
    candidates: Tensor,
    first_id: int,
    starts: Tensor,
    ends: Tensor,
    known: Tensor,
    better: Tensor,
    tied: Tensor,
) -> None:
    """As in `interface`."""
    B, N = len(q), len(candidates)
    qs, e = packed_queries(q, s), packed_candidates(candidates)
    grid = (COUNT.blocks(N, "CANDIDATES"), COUNT.blocks(B, "QUERIES"))
    COUNT(grid, qs, e, limits, better, tied, B, N, qs.shape[1])
    q, s, candidates = (torch.nn.functional.pad(part, (0, -part.shape[1] % STEP)) for part in (q, s, candidates))
    UNCOUNT((B,), q, s, candidates, limits, first_id, starts, ends, known, better, tied, N, q.shape[1])


def scaled_l1_top(
    threads: int,
    q: Tensor,
    s: Tensor,
    candidates: Tensor,
    first_id: int,
    starts: Tensor,
    ends: Tensor,
    excluded: Tensor,
    distances: Tensor,
    ids: Tensor,
) -> None:
    """As in `interface`. A distance and its id are one whole number, whose order is that of the distances, which are
    not negative, and then of the ids."""
    qs = packed_queries(q, s)
    size = max(1, _HELD // max(1, len(q)))
    best = _as_keys(distances, ids)
    for part in candidates.split(size):
        found = cross_transposed(qs, packed_candidates(part), len(q), len(part)).T.contiguous()
        EXCLUDE((len(q),), found, first_id, starts, ends, excluded, len(part))
        keys = _as_keys(found, torch.arange(first_id, first_id + len(part), device=q.device))
        both = torch.cat([best, keys], 1)
        best = both.topk(best.shape[1], 1, largest=False, sorted=True).values
        first_id += len(part)
    places = best & _UNUSED
    ids.copy_(places.masked_fill_(places == _UNUSED, torch.iinfo(torch.int64).max))
    distances.copy_((best >> 32).int().view(torch.float32))


def _as_keys(distances: Tensor, ids: Tensor) -> Tensor:
    """(B, n), int64 (B, n) or (n,) → int64 (B, n). A place without a candidate has distance ∞ and the last id."""
    distances = distances.nan_to_num(torch.inf, posinf=torch.inf)
    ids = torch.where(distances.isinf(), _UNUSED, ids)
    return distances.view(torch.int32).long() << 32 | ids
