"""Scaled L1 distances Σ_i |q_i − s_i e_i| and their gradients, in Triton.

A thread of `cross` keeps a small tile of (query, candidate) pairs in registers and goes through the coordinates one by
one. For that, rows are packed: blocks of rows, transposed, so that one coordinate of neighbouring rows is one load.
Padding is zero and adds zero. `cross`, `pairs` and the counts add up in the same order, runs of STEP coordinates and
then the runs, by the same instruction: a pair's distance has the same bits in all of them.

The sign of a difference is taken from its bits, so that it is never 0: at a difference of zero, the gradient is one of
the two one-sided ones.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from transher.kernels.gpu.compiled import Compiled
from transher.kernels.gpu.layout import (
    INTERLEAVED,
    VECTOR,
    Occurrences,
    aligned,
    begins,
    interleaved,
    packed,
    packed_by_fours,
    refuse_misfits,
    roomy,
)
from transher.kernels.interface import Tensors

__all__ = ["scaled_l1_backward", "scaled_l1_cross", "scaled_l1_pairs", "scaled_l1_pairs_backward"]

QUERIES, STEP = 64, 16  # queries of a block, and coordinates that are added up before their sum is
# Pairs of a program. On warps of 64 threads a smaller tile keeps to the registers.
TILE = {"QUERIES": QUERIES, "CANDIDATES": 32, "STEP": STEP}
WIDE_TILE = {"QUERIES": QUERIES, "CANDIDATES": 8, "STEP": STEP}
_SIGN = tl.constexpr(-0x80000000)
_VECTOR = tl.constexpr(VECTOR)
_RUN = tl.constexpr(INTERLEAVED)


@triton.jit
def signed(size, difference):
    """size with the sign of the difference: two bitwise operations, which a GPU does in one instruction."""
    bits = size.to(tl.int32, bitcast=True) ^ (difference.to(tl.int32, bitcast=True) & _SIGN)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def with_sign(size, difference):
    """size, which is not negative, with the sign of the difference."""
    bits = (difference.to(tl.int32, bitcast=True) & _SIGN) | (size.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def places(at):
    """Where rows begin, of `layout.begins`: never negative, so that there is no sign to spread over 64 bits."""
    return at.to(tl.uint32, bitcast=True).to(tl.int64) * _VECTOR


@triton.jit
def tile_distances(qs, e, k, QUERIES: tl.constexpr, CANDIDATES: tl.constexpr, STEP: tl.constexpr):
    """Pointers to packed (k, 2, QUERIES), which are q and −s, and (k, CANDIDATES) → (CANDIDATES, QUERIES)."""
    qs += tl.arange(0, QUERIES)
    e += tl.arange(0, CANDIDATES)
    total = tl.zeros([CANDIDATES, QUERIES], tl.float32)
    for _ in range(0, k, STEP):
        run = tl.zeros([CANDIDATES, QUERIES], tl.float32)
        for i in tl.static_range(STEP):
            q = tl.load(qs + i * 2 * QUERIES)
            minus_s = tl.load(qs + i * 2 * QUERIES + QUERIES)
            x = tl.load(e + i * CANDIDATES)
            run += tl.abs(tl.fma(minus_s[None, :], x[:, None], q[None, :]))
        total += run
        qs += STEP * 2 * QUERIES
        e += STEP * CANDIDATES
    return total


@triton.jit
def _cross(qs, e, out, B, N, k, QUERIES: tl.constexpr, CANDIDATES: tl.constexpr, STEP: tl.constexpr):
    """Packed queries and candidates → distances (N, B)."""
    block, block_of_queries = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    found = tile_distances(
        qs + block_of_queries * k * 2 * QUERIES, e + block * k * CANDIDATES, k, QUERIES, CANDIDATES, STEP
    )
    n = block * CANDIDATES + tl.arange(0, CANDIDATES)[:, None]
    b = block_of_queries * QUERIES + tl.arange(0, QUERIES)[None, :]
    tl.store(out + n * B + b, found, mask=(n < N) & (b < B))


@triton.jit
def add_in_order(total, fours, QUERIES: tl.constexpr):
    """total (QUERIES,) and, one after the other, the four columns of fours (QUERIES, 4)."""
    even, odd = tl.split(tl.reshape(fours, [QUERIES, 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return (((total + first) + second) + third) + fourth


@triton.jit
def _pairs(qse, out, B, k, QUERIES: tl.constexpr, STEP: tl.constexpr):
    """q, −s and e, packed by fours (k / 4, 3, QUERIES, 4) → distances (B,)."""
    block = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, QUERIES)
    qse += block * k * 3 * QUERIES + (4 * lanes[:, None] + tl.arange(0, 4)[None, :])
    total = tl.zeros([QUERIES], tl.float32)
    for _ in range(0, k, STEP):
        run = tl.zeros([QUERIES], tl.float32)
        for i in tl.static_range(0, STEP, 4):
            q = tl.load(qse + i * 3 * QUERIES)
            minus_s = tl.load(qse + (i * 3 + 4) * QUERIES)
            x = tl.load(qse + (i * 3 + 8) * QUERIES)
            run = add_in_order(run, tl.abs(tl.fma(minus_s, x, q)), QUERIES)
        total += run
        qse += STEP * 3 * QUERIES
    b = block * QUERIES + lanes
    tl.store(out + b, total, mask=b < B)


@triton.jit
def _query_gradients(q, s, e, g, dq, ds, B, N, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows (B, k), (B, k), (N, k) and g (N, B) → dq = Σ_n g·sign, ds = −Σ_n g·sign·e."""
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (b[:, None] < B) & (i[None, :] < k)
    at = b[:, None].to(tl.int64) * k + i[None, :]
    own, minus_s = tl.load(q + at, mask=inside, other=0.0), -tl.load(s + at, mask=inside, other=0.0)
    sum_q, sum_s = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    e += i
    g += b
    for _ in tl.range(0, N, loop_unroll_factor=4):
        x = tl.load(e)[None, :]  # unmasked: rows are `aligned`, and what lies beyond goes nowhere
        pull = signed(tl.load(g)[:, None], tl.fma(minus_s, x, own))
        sum_q += pull
        sum_s = tl.fma(pull, x, sum_s)
        e += k
        g += B
    # Signs of bits hide a NaN, which must be seen.
    tl.store(dq + at, tl.where(own == own, sum_q, own), mask=inside)
    tl.store(ds + at, tl.where(minus_s == minus_s, -sum_s, minus_s), mask=inside)


@triton.jit
def _candidate_gradients(q, s, e, g, de, B, N, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows (B, k), (B, k), (N, k) and g (B, N) → de = −Σ_b g·sign·s."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (n[:, None] < N) & (i[None, :] < k)
    at = n[:, None].to(tl.int64) * k + i[None, :]
    minus_x = -tl.load(e + at, mask=inside, other=0.0)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    q += i
    s += i
    g += n
    for _ in tl.range(0, B, loop_unroll_factor=4):
        # sign(q − s·e)·s is |s| with the sign of ±q − |s|·e, where ± is the sign of s: one instruction on any GPU.
        scale = tl.load(s)
        size, turned = tl.abs(scale)[None, :], signed(tl.load(q), scale)[None, :]
        pull = with_sign(size, tl.fma(size, minus_x, turned))
        total = tl.fma(tl.load(g)[:, None], pull, total)
        q += k
        s += k
        g += N
    tl.store(de + at, tl.where(minus_x == minus_x, -total, minus_x), mask=inside)


@triton.jit
def _listed(q, s, e, ids, out, N, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows (B, k), (B, k), (U, k), whose k is a multiple of COLUMNS, and ids (B, N) → distances (B, N)."""
    b = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, COLUMNS)
    # Beyond the last candidate it is read once more.
    rows = e + (tl.load(ids + b * N + tl.minimum(n, N - 1)) * k)[:, None] + i[None, :]
    q += b * k + i
    s += b * k + i
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for _ in tl.range(0, k, COLUMNS, loop_unroll_factor=4):
        total += tl.abs(tl.fma(-tl.load(s)[None, :], tl.load(rows), tl.load(q)[None, :]))
        rows += COLUMNS
        q += COLUMNS
        s += COLUMNS
    tl.store(out + b * N + n, tl.sum(total, 1), mask=n < N)


@triton.jit
def _listed_query_gradients(q, s, e, at, g, dq, ds, N, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """As `_query_gradients`: pair n of query b has the row of e that begins at 16·at[b, n], and gradient g[b, n]."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    own = tl.load(q + b * k + i, mask=i < k, other=0.0)
    minus_s = -tl.load(s + b * k + i, mask=i < k, other=0.0)
    sum_q, sum_s = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    n = tl.arange(0, ROWS)
    at += b * N + n
    g += b * N + n
    e += i
    for _ in range(N // ROWS):  # unmasked, as above
        x = tl.load(e[None, :] + places(tl.load(at))[:, None])
        pull = signed(tl.load(g)[:, None], tl.fma(minus_s[None, :], x, own[None, :]))
        sum_q += pull
        sum_s = tl.fma(pull, x, sum_s)
        at += ROWS
        g += ROWS
    left = n < N % ROWS
    x = tl.load(e[None, :] + places(tl.load(at, mask=left, other=0))[:, None], mask=left[:, None], other=0.0)
    size = tl.load(g, mask=left, other=0.0)[:, None]
    pull = signed(size, tl.fma(minus_s[None, :], x, own[None, :]))
    sum_q += pull
    sum_s = tl.fma(pull, x, sum_s)
    tl.store(dq + b * k + i, tl.where(own == own, tl.sum(sum_q, 0), own), mask=i < k)
    tl.store(ds + b * k + i, tl.where(minus_s == minus_s, -tl.sum(sum_s, 0), minus_s), mask=i < k)


@triton.jit
def _listed_candidate_gradients(qs, e, at, g, starts, de, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """As `_candidate_gradients`, with rows of ±q and |s|, `interleaved`, where ± is the sign of s: row u of e has the
    pairs p from starts[u] to starts[u + 1], whose rows of both begin at 16·at[p], and gradients g[p]."""
    u = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    minus_x = -tl.load(e + u * k + i, mask=i < k, other=0.0)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    first = tl.load(starts + u)
    count = (tl.load(starts + u + 1) - first).to(tl.int32)
    p = tl.arange(0, ROWS)
    at += first + p
    g += first + p
    column = tl.arange(0, COLUMNS)
    qs += tl.program_id(1) * 2 * COLUMNS + column // _RUN * 2 * _RUN + column % _RUN
    for _ in range(count // ROWS):
        row = qs[None, :] + places(tl.load(at))[:, None]
        size = tl.load(row + _RUN)
        pull = with_sign(size, tl.fma(size, minus_x[None, :], tl.load(row)))
        total = tl.fma(tl.load(g)[:, None], pull, total)
        at += ROWS
        g += ROWS
    left = p < count % ROWS
    row = qs[None, :] + places(tl.load(at, mask=left, other=0))[:, None]
    size = tl.load(row + _RUN, mask=left[:, None], other=0.0)
    pull = with_sign(size, tl.fma(size, minus_x[None, :], tl.load(row, mask=left[:, None], other=0.0)))
    total = tl.fma(tl.load(g, mask=left, other=0.0)[:, None], pull, total)
    tl.store(de + u * k + i, tl.where(minus_x == minus_x, -tl.sum(total, 0), minus_x), mask=i < k)


_FLOATS = dict.fromkeys(("q", "s", "e", "g", "dq", "ds", "de", "qs", "qse", "out"), "*fp32")
_TYPES = _FLOATS | dict.fromkeys(("ids", "starts"), "*i64") | {"at": "*i32"} | dict.fromkeys(("B", "N", "k"), "i32")

_BLOCK = {"ROWS": 32, "COLUMNS": 64}  # of a gradient
_LONG = {"ROWS": 4, "COLUMNS": 256}  # where each pair has rows of its own: what belongs to a pair serves many columns

CROSS = Compiled(_cross, _TYPES, TILE, 2, wide=(WIDE_TILE, 1))
PAIRS = Compiled(_pairs, _TYPES, {"QUERIES": QUERIES, "STEP": STEP}, 1)
QUERY_GRADIENTS = Compiled(_query_gradients, _TYPES, _BLOCK, 4, wide=(_BLOCK, 2))
CANDIDATE_GRADIENTS = Compiled(_candidate_gradients, _TYPES, {"ROWS": 64, "COLUMNS": 32}, 2)
LISTED = Compiled(_listed, _TYPES, {"ROWS": 32, "COLUMNS": 64}, 4)
LISTED_QUERY_GRADIENTS = Compiled(_listed_query_gradients, _TYPES, _LONG, 1)
LISTED_CANDIDATE_GRADIENTS = Compiled(
    _listed_candidate_gradients, _TYPES, _LONG, 1, wide=({"ROWS": 8, "COLUMNS": 256}, 1)
)


def scaled_l1_cross(threads: int, query: Tensors, e: Tensor, ids: Tensor | None, out: Tensor) -> None:
    """As in `interface`: all candidates of all queries or, with ids, candidates of each query's own."""
    q, s = query
    refuse_misfits(q, s, e, ids=ids)
    B, N = out.shape
    if ids is not None:
        q, s, e = (aligned(part, LISTED.size("COLUMNS")) for part in (q, s, e))
        LISTED((B, LISTED.blocks(N, "ROWS")), q, s, e, ids, out, N, q.shape[1])
        return
    out.copy_(cross_transposed(packed_queries(q, s), packed_candidates(e), B, N).T)


def packed_queries(q: Tensor, s: Tensor) -> Tensor:
    return packed((q, -s), QUERIES, STEP)


def packed_candidates(e: Tensor) -> Tensor:
    return packed((e,), CROSS.size("CANDIDATES"), STEP)


def cross_transposed(qs: Tensor, e: Tensor, B: int, N: int) -> Tensor:
    """Packed (q, −s) and candidates → distances (N, B)."""
    found = qs.new_empty(N, B)
    CROSS((CROSS.blocks(N, "CANDIDATES"), CROSS.blocks(B, "QUERIES")), qs, e, found, B, N, qs.shape[1])
    return found


def scaled_l1_backward(
    threads: int, query: Tensors, e: Tensor, ids: Tensor | None, g: Tensor, d_query: Tensors, de: Tensor
) -> None:
    """As in `interface`."""
    k = e.shape[1]
    q, s, e = (aligned(part) for part in (*query, e))
    B, N, width = *g.shape, q.shape[1]
    dq, ds, d_rows = (torch.empty_like(part) for part in (q, s, e))
    if ids is None:
        _over(QUERY_GRADIENTS, B, width, q, s, e, roomy(g.T), dq, ds, B, N, width)
        _over(CANDIDATE_GRADIENTS, N, width, q, s, e, roomy(g), d_rows, B, N, width)
    else:
        grid = B, LISTED_QUERY_GRADIENTS.blocks(width, "COLUMNS")
        LISTED_QUERY_GRADIENTS(grid, q, s, e, begins(ids, width), g, dq, ds, N, width)
        order, starts = Occurrences.of(ids, len(e))
        qs = interleaved(torch.where(s < 0, -q, q), s.abs())
        owners = begins(order // max(N, 1), qs.shape[1])
        grid = len(e), LISTED_CANDIDATE_GRADIENTS.blocks(width, "COLUMNS")
        LISTED_CANDIDATE_GRADIENTS(grid, qs, e, owners, g.reshape(-1)[order], starts, d_rows, width)
    for result, found in zip((*d_query, de), (dq, ds, d_rows), strict=True):
        result.copy_(found[:, :k])


def _over(kernel: Compiled, rows: int, columns: int, *arguments: Tensor | int) -> None:
    """One program per block of a (rows, columns) result."""
    kernel((kernel.blocks(rows, "ROWS"), kernel.blocks(columns, "COLUMNS")), *arguments)


def scaled_l1_pairs(threads: int, query: Tensors, e: Tensor, ids: None, out: Tensor) -> None:
    """As in `interface`."""
    q, s = query
    refuse_misfits(q, s, e)
    qse = packed_by_fours((q, -s, e), QUERIES, STEP)
    PAIRS((PAIRS.blocks(len(out), "QUERIES"),), qse, out, len(out), 4 * qse.shape[1])


def scaled_l1_pairs_backward(
    threads: int, query: Tensors, e: Tensor, ids: None, g: Tensor, d_query: Tensors, de: Tensor
) -> None:
    """As in `interface`: a row each, which torch does as fast as it can be read."""
    q, s = query
    dq, ds = d_query
    torch.mul(torch.addcmul(q, s, e, value=-1).sign_(), g[:, None], out=dq)
    torch.mul(dq, e, out=ds).neg_()
    torch.mul(dq, s, out=de).neg_()
