"""Rows of the big tables, in Triton: gathering, row-sparse Adam, normalising, and sums over where a row occurs."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from transher.kernels.gpu.compiled import Compiled
from transher.kernels.gpu.layout import Occurrences, refuse_misfits

__all__ = ["adam_rows", "gather_rows", "mask_known", "normalise_rows", "sum_rows", "unit_rows"]


@triton.jit
def _gather(table, ids, out, k, COLUMNS: tl.constexpr):
    """table[ids] → out (U, k)."""
    u = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(ids + u).to(tl.int64)
    tl.store(out + u * k + i, tl.load(table + row * k + i, mask=i < k, other=0.0), mask=i < k)


@triton.jit
def _sums(rows, places, starts, out, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out (U, k): of each of U, the sum of the rows (n, k) at its places, in a fixed order. Several rows at a time: one
    by one, each would wait for the one before it, and some relations have hundreds in a batch."""
    u = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    last = tl.load(starts + u + 1)
    for first in range(tl.load(starts + u), last, ROWS):
        place = first + tl.arange(0, ROWS)
        row = rows + tl.load(places + place, mask=place < last, other=0) * k
        total += tl.load(row[:, None] + i[None, :], mask=(place < last)[:, None] & (i < k)[None, :], other=0.0)
    tl.store(out + u * k + i, tl.sum(total, 0), mask=i < k)


@triton.jit
def _adam(weight, m, v, ids, g, rate, beta1, beta2, rest1, rest2, epsilon, correction, k, COLUMNS: tl.constexpr):
    """One step of Adam on the rows ids of weight, m and v; g: (U, k). rest is 1 − β, which float32 cannot take from a
    β so close to 1."""
    u = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    at = tl.load(ids + u).to(tl.int64) * k + i
    slope = tl.load(g + u * k + i, mask=i < k, other=0.0)
    first = beta1 * tl.load(m + at, mask=i < k, other=0.0) + rest1 * slope
    second = beta2 * tl.load(v + at, mask=i < k, other=0.0) + rest2 * slope * slope
    moved = tl.load(weight + at, mask=i < k, other=0.0) - rate * first / (tl.sqrt(second) * correction + epsilon)
    tl.store(m + at, first, mask=i < k)
    tl.store(v + at, second, mask=i < k)
    tl.store(weight + at, moved, mask=i < k)


@triton.jit
def _normalise(rows, ids, out, k, LISTED: tl.constexpr, COLUMNS: tl.constexpr):
    """Row u of out is row u of rows (U, k), brought to length 1; LISTED: row ids[u] of both instead."""
    u = tl.program_id(0).to(tl.int64)
    row = (tl.load(ids + u) if LISTED else u) * k
    squares = tl.zeros([COLUMNS], tl.float32)
    for first in range(0, k, COLUMNS):
        i = first + tl.arange(0, COLUMNS)
        x = tl.load(rows + row + i, mask=i < k, other=0.0)
        squares = tl.fma(x, x, squares)
    length = tl.maximum(tl.sqrt_rn(tl.sum(squares, 0)), 1e-12)
    for first in range(0, k, COLUMNS):
        i = first + tl.arange(0, COLUMNS)
        x = tl.load(rows + row + i, mask=i < k, other=0.0)
        tl.store(out + row + i, tl.div_rn(x, length), mask=i < k)


@triton.jit
def _mask_known(valid, negatives, starts, ends, known, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """valid[b, n] = 0 where negatives[n] is among known[starts[b]:ends[b]]."""
    b = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    drawn = tl.load(negatives + n, mask=n < N, other=-1)
    hits = tl.zeros([COLUMNS], tl.int32)
    last = tl.load(ends + b)
    for first in range(tl.load(starts + b), last, ROWS):
        place = first + tl.arange(0, ROWS)
        ids = tl.load(known + place, mask=place < last, other=-2)
        hits += tl.sum((ids[:, None] == drawn[None, :]).to(tl.int32), 0)
    tl.store(valid + b * N + n, tl.zeros([COLUMNS], tl.int1), mask=(n < N) & (hits > 0))


_FLOATS = dict.fromkeys(("table", "out", "rows", "weight", "m", "v", "g"), "*fp32")
_NUMBERS = dict.fromkeys(("rate", "beta1", "beta2", "rest1", "rest2", "epsilon", "correction"), "fp32")
_IDS = dict.fromkeys(("ids", "places", "starts", "ends", "negatives"), "*i64")
_TYPES = _FLOATS | _NUMBERS | _IDS | {"valid": "*i1", "known": "*i32", "N": "i32", "k": "i32"}
_COLUMNS = {"COLUMNS": 512}

GATHER = Compiled(_gather, _TYPES, _COLUMNS, 4)
SUMS = Compiled(_sums, _TYPES, {"ROWS": 8} | _COLUMNS, 4)
ADAM = Compiled(_adam, _TYPES, _COLUMNS, 4)
NORMALISE = Compiled(_normalise, _TYPES, _COLUMNS | {"LISTED": 0}, 4)
NORMALISE_LISTED = Compiled(_normalise, _TYPES, _COLUMNS | {"LISTED": 1}, 4)
MASK_KNOWN = Compiled(_mask_known, _TYPES, {"ROWS": 16, "COLUMNS": 256}, 4)


def gather_rows(threads: int, table: Tensor, ids: Tensor, out: Tensor) -> None:
    """As in `interface`."""
    refuse_misfits(table, ids=ids)
    k = table.shape[1]
    GATHER((len(ids), GATHER.blocks(k, "COLUMNS")), table, ids, out, k)


def sum_rows(rows: Tensor, ids: Tensor, out: Tensor) -> None:
    """out (U, k): the sum of the rows (n, k) whose id (n,) is u, in an order that depends on their number alone."""
    k = rows.shape[1]
    SUMS((len(out), SUMS.blocks(k, "COLUMNS")), rows, *Occurrences.of(ids, len(out)), out, k)


def adam_rows(
    threads: int,
    weight: Tensor,
    m: Tensor,
    v: Tensor,
    ids: Tensor,
    gradient: Tensor,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    root_correction: float,
) -> None:
    """As in `interface`."""
    refuse_misfits(weight, ids=ids)
    k = weight.shape[1]
    betas = beta1, beta2, 1 - beta1, 1 - beta2
    ADAM((len(ids), ADAM.blocks(k, "COLUMNS")), weight, m, v, ids, gradient, rate, *betas, epsilon, root_correction, k)


def unit_rows(threads: int, table: Tensor, ids: Tensor) -> None:
    """As in `interface`."""
    refuse_misfits(table, ids=ids)
    NORMALISE_LISTED((len(ids),), table, ids, table, table.shape[1])


def normalise_rows(threads: int, rows: Tensor, out: Tensor) -> None:
    """As in `interface`."""
    NORMALISE((len(rows),), rows, rows, out, rows.shape[1])


def mask_known(valid: Tensor, negatives: Tensor, starts: Tensor, ends: Tensor, ids: Tensor) -> None:
    """As in `interface`."""
    B, N = valid.shape
    MASK_KNOWN((B, MASK_KNOWN.blocks(N, "COLUMNS")), valid, negatives, starts, ends, ids, N)
