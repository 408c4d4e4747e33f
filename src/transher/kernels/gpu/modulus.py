"""Distances Σ_i |q_i − e_i| over complex coordinates, rows [real | imaginary], and their gradients, in Triton.

As in `scaled_l1`: packed rows and tiles in registers, and one order of adding up. The gradient of a side is the same
formula for queries and for candidates: one kernel serves both.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from transher.kernels.gpu.compiled import Compiled
from transher.kernels.gpu.layout import (
    VECTOR,
    Occurrences,
    aligned,
    begins,
    packed,
    packed_by_fours,
    refuse_misfits,
    roomy,
)
from transher.kernels.gpu.rows import sum_rows
from transher.kernels.gpu.scaled_l1 import add_in_order, places
from transher.kernels.interface import Tensors
from transher.kernels.pools import run_length

__all__ = [
    "complex_modulus_backward",
    "complex_modulus_cross",
    "complex_modulus_pairs",
    "complex_modulus_pairs_backward",
]

QUERIES, CANDIDATES, STEP = 64, 32, 16  # as in `scaled_l1`
_TINY = tl.constexpr(1.1754943508222875e-38)  # below it, a squared modulus counts as zero, where any direction is right


@triton.jit
def modulus(real, imaginary):
    return tl.sqrt(tl.fma(real, real, imaginary * imaginary))


@triton.jit
def _cross(q, e, out, B, N, k, QUERIES: tl.constexpr, CANDIDATES: tl.constexpr, STEP: tl.constexpr):
    """Packed (k, 2, QUERIES) and (k, 2, CANDIDATES) → distances (N, B)."""
    block, block_of_queries = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    q += block_of_queries * k * 2 * QUERIES + tl.arange(0, QUERIES)
    e += block * k * 2 * CANDIDATES + tl.arange(0, CANDIDATES)
    total = tl.zeros([CANDIDATES, QUERIES], tl.float32)
    for _ in range(0, k, STEP):
        run = tl.zeros([CANDIDATES, QUERIES], tl.float32)
        for i in tl.static_range(STEP):
            real = tl.load(q + i * 2 * QUERIES)[None, :] - tl.load(e + i * 2 * CANDIDATES)[:, None]
            imaginary = tl.load(q + (i * 2 + 1) * QUERIES)[None, :] - tl.load(e + (i * 2 + 1) * CANDIDATES)[:, None]
            run += modulus(real, imaginary)
        total += run
        q += STEP * 2 * QUERIES
        e += STEP * 2 * CANDIDATES
    n = block * CANDIDATES + tl.arange(0, CANDIDATES)[:, None]
    b = block_of_queries * QUERIES + tl.arange(0, QUERIES)[None, :]
    tl.store(out + n * B + b, total, mask=(n < N) & (b < B))


@triton.jit
def _pairs(qe, out, B, k, QUERIES: tl.constexpr, STEP: tl.constexpr):
    """Real and imaginary parts of q, then of e, packed by fours (k / 4, 4, QUERIES, 4) → distances (B,)."""
    block = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, QUERIES)
    qe += block * k * 4 * QUERIES + (4 * lanes[:, None] + tl.arange(0, 4)[None, :])
    total = tl.zeros([QUERIES], tl.float32)
    for _ in range(0, k, STEP):
        run = tl.zeros([QUERIES], tl.float32)
        for i in tl.static_range(0, STEP, 4):
            part = qe + i * 4 * QUERIES
            real = tl.load(part) - tl.load(part + 8 * QUERIES)
            imaginary = tl.load(part + 4 * QUERIES) - tl.load(part + 12 * QUERIES)
            run = add_in_order(run, modulus(real, imaginary), QUERIES)
        total += run
        qe += STEP * 4 * QUERIES
    b = block * QUERIES + lanes
    tl.store(out + b, total, mask=b < B)


@triton.jit
def _pull(g, real, imaginary):
    """g / |real + i·imaginary|."""
    return g * tl.rsqrt(tl.maximum(tl.fma(real, real, imaginary * imaginary), _TINY))


@triton.jit
def _gradients(own, others, g, out, B, N, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows (B, 2, k), (N, 2, k) and g (N, B) → Σ_n g·(own − other)/|own − other|, as own."""
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (b[:, None] < B) & (i[None, :] < k)
    at = b[:, None].to(tl.int64) * 2 * k + i[None, :]
    own_real, own_imaginary = (
        tl.load(own + at, mask=inside, other=0.0),
        tl.load(own + at + k, mask=inside, other=0.0),
    )
    sum_real, sum_imaginary = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    others += i
    g += b
    for _ in tl.range(0, N, loop_unroll_factor=4):
        real = own_real - tl.load(others)[None, :]  # unmasked, as in `scaled_l1`
        imaginary = own_imaginary - tl.load(others + k)[None, :]
        pull = _pull(tl.load(g)[:, None], real, imaginary)
        sum_real = tl.fma(pull, real, sum_real)
        sum_imaginary = tl.fma(pull, imaginary, sum_imaginary)
        others += 2 * k
        g += B
    tl.store(out + at, sum_real, mask=inside)
    tl.store(out + at + k, sum_imaginary, mask=inside)


@triton.jit
def _listed(q, e, ids, out, N, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows (B, 2, k), (U, 2, k), whose k is a multiple of COLUMNS, and ids (B, N) → distances (B, N)."""
    b = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, COLUMNS)
    rows = e + (tl.load(ids + b * N + tl.minimum(n, N - 1)) * 2 * k)[:, None] + i[None, :]  # as in `scaled_l1`
    q += b * 2 * k + i
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for _ in tl.range(0, k, COLUMNS, loop_unroll_factor=2):
        total += modulus(tl.load(q)[None, :] - tl.load(rows), tl.load(q + k)[None, :] - tl.load(rows + k))
        q += COLUMNS
        rows += COLUMNS
    tl.store(out + b * N + n, tl.sum(total, 1), mask=n < N)


@triton.jit
def _listed_gradients(own, others, at, g, starts, out, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """As `_gradients`, of row u (2, k) with the pairs p from starts[u] to starts[u + 1]: pair p has the other row that
    begins at 16·at[p], and gradient g[p]."""
    u = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    own_real = tl.load(own + u * 2 * k + i, mask=i < k, other=0.0)[None, :]
    own_imaginary = tl.load(own + u * 2 * k + k + i, mask=i < k, other=0.0)[None, :]
    sum_real, sum_imaginary = tl.zeros([ROWS, COLUMNS], tl.float32), tl.zeros([ROWS, COLUMNS], tl.float32)
    first = tl.load(starts + u)
    count = (tl.load(starts + u + 1) - first).to(tl.int32)
    p = tl.arange(0, ROWS)
    at += first + p
    g += first + p
    others += i
    for _ in range(count // ROWS):  # unmasked, as in `scaled_l1`
        rows = others[None, :] + places(tl.load(at))[:, None]
        real, imaginary = own_real - tl.load(rows), own_imaginary - tl.load(rows + k)
        pull = _pull(tl.load(g)[:, None], real, imaginary)
        sum_real = tl.fma(pull, real, sum_real)
        sum_imaginary = tl.fma(pull, imaginary, sum_imaginary)
        at += ROWS
        g += ROWS
    left = p < count % ROWS
    rows = others[None, :] + places(tl.load(at, mask=left, other=0))[:, None]
    real = own_real - tl.load(rows, mask=left[:, None], other=0.0)
    imaginary = own_imaginary - tl.load(rows + k, mask=left[:, None], other=0.0)
    pull = _pull(tl.load(g, mask=left, other=0.0)[:, None], real, imaginary)
    sum_real = tl.fma(pull, real, sum_real)
    sum_imaginary = tl.fma(pull, imaginary, sum_imaginary)
    tl.store(out + u * 2 * k + i, tl.sum(sum_real, 0), mask=i < k)
    tl.store(out + u * 2 * k + k + i, tl.sum(sum_imaginary, 0), mask=i < k)


_FLOATS = dict.fromkeys(("q", "e", "qe", "own", "others", "g", "out"), "*fp32")
_TYPES = _FLOATS | dict.fromkeys(("ids", "starts"), "*i64") | {"at": "*i32"} | dict.fromkeys(("B", "N", "k"), "i32")

CROSS = Compiled(_cross, _TYPES, {"QUERIES": QUERIES, "CANDIDATES": CANDIDATES, "STEP": STEP}, 2)
PAIRS = Compiled(_pairs, _TYPES, {"QUERIES": QUERIES, "STEP": STEP}, 1)
GRADIENTS = Compiled(_gradients, _TYPES, {"ROWS": 32, "COLUMNS": 64}, 4)
LISTED = Compiled(_listed, _TYPES, {"ROWS": 16, "COLUMNS": 64}, 4)
LISTED_GRADIENTS = Compiled(_listed_gradients, _TYPES, {"ROWS": 8, "COLUMNS": 128}, 2)


def complex_modulus_cross(threads: int, query: Tensors, e: Tensor, ids: Tensor | None, out: Tensor) -> None:
    """As in `interface`: all candidates of all queries or, with ids (P, N), those of each query's pool."""
    (q,) = query
    refuse_misfits(q, e, ids=ids)
    B, N = out.shape
    if ids is None:
        out.copy_(_cross_transposed(q, e).T)
    elif len(ids) == B:
        columns = LISTED.size("COLUMNS")
        q, e = _halves_aligned(q, columns), _halves_aligned(e, columns)
        LISTED((B, LISTED.blocks(N, "ROWS")), q, e, ids, out, N, q.shape[2])
    else:
        run = run_length(B, len(ids))
        for part, pool, found in zip(q.split(run), ids, out.split(run), strict=True):
            found.copy_(_cross_transposed(part, e.index_select(0, pool)).T)


def _cross_transposed(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (N, 2k) → distances (N, B)."""
    queries, candidates = packed(q.chunk(2, 1), QUERIES, STEP), packed(e.chunk(2, 1), CANDIDATES, STEP)
    found = q.new_empty(len(e), len(q))
    grid = (CROSS.blocks(len(e), "CANDIDATES"), CROSS.blocks(len(q), "QUERIES"))
    CROSS(grid, queries, candidates, found, len(q), len(e), queries.shape[1])
    return found


def complex_modulus_backward(
    threads: int, query: Tensors, e: Tensor, ids: Tensor | None, g: Tensor, d_query: Tensors, de: Tensor
) -> None:
    """As in `interface`."""
    B = len(g)
    q, rows = _halves_aligned(query[0]), _halves_aligned(e)
    dq, d_rows = torch.empty_like(q), torch.empty_like(rows)
    if ids is None:
        _backward(q, rows, g, dq, d_rows)
    elif len(ids) == B:
        _listed_backward(q, rows, ids, g, dq, d_rows)
    else:
        run = run_length(B, len(ids))
        d_pools = rows.new_empty(*ids.shape, *rows.shape[1:])  # (P, N, 2, k)
        parts = zip(query[0].split(run), ids, g.split(run), dq.split(run), d_pools, strict=True)
        for part, pool, slope, d_part, d_pool in parts:
            _backward(_halves_aligned(part), _halves_aligned(e[pool]), slope, d_part, d_pool)
        width = 2 * rows.shape[2]
        sum_rows(d_pools.view(ids.numel(), width), ids.view(-1), d_rows.view(len(rows), width))
    for result, found in zip((*d_query, de), (dq, d_rows), strict=True):
        half = result.shape[1] // 2
        result.view(len(result), 2, half).copy_(found[:, :, :half])


def _backward(q: Tensor, e: Tensor, g: Tensor, dq: Tensor, de: Tensor) -> None:
    """Rows (B, 2, k) and (N, 2, k), g (B, N) → gradients of both."""
    B, N, k = *g.shape, q.shape[2]
    columns = GRADIENTS.blocks(k, "COLUMNS")
    GRADIENTS((GRADIENTS.blocks(B, "ROWS"), columns), q, e, roomy(g.T), dq, B, N, k)
    GRADIENTS((GRADIENTS.blocks(N, "ROWS"), columns), e, q, roomy(g), de, N, B, k)


def _listed_backward(q: Tensor, e: Tensor, ids: Tensor, g: Tensor, dq: Tensor, de: Tensor) -> None:
    """As `_backward`, with ids (B, N) of rows of e (U, 2, k)."""
    B, N, k = *g.shape, q.shape[2]
    columns = LISTED_GRADIENTS.blocks(k, "COLUMNS")
    starts = torch.arange(B + 1, device=q.device) * N
    LISTED_GRADIENTS((B, columns), q, e, begins(ids.reshape(-1), 2 * k), g, starts, dq, k)
    places, starts = Occurrences.of(ids, len(e))
    owners = begins(places // max(N, 1), 2 * k)
    LISTED_GRADIENTS((len(e), columns), e, q, owners, g.reshape(-1)[places], starts, de, k)


def _halves_aligned(rows: Tensor, columns: int = VECTOR) -> Tensor:
    """(n, 2k) → (n, 2, k) with k a multiple of so many columns."""
    n, width = rows.shape
    halves = aligned(rows.reshape(2 * n, width // 2), columns)
    return halves.view(n, 2, halves.shape[1])


def complex_modulus_pairs(threads: int, query: Tensors, e: Tensor, ids: None, out: Tensor) -> None:
    """As in `interface`."""
    refuse_misfits(*query, e)
    qe = packed_by_fours((*query[0].chunk(2, 1), *e.chunk(2, 1)), QUERIES, STEP)
    PAIRS((PAIRS.blocks(len(out), "QUERIES"),), qe, out, len(out), 4 * qe.shape[1])


def complex_modulus_pairs_backward(
    threads: int, query: Tensors, e: Tensor, ids: None, g: Tensor, d_query: Tensors, de: Tensor
) -> None:
    """As in `interface`: a row each, which torch does as fast as it can be read."""
    difference = (query[0] - e).unflatten(1, (2, -1))
    squared = difference.square().sum(1, keepdim=True).clamp_min_(torch.finfo(e.dtype).tiny)
    found = (difference * squared.rsqrt_().mul_(g[:, None, None])).flatten(1)
    d_query[0].copy_(found)
    torch.neg(found, out=de)
