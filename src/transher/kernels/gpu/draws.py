"""NumPy's counter-based random words, Philox 4×64 with ten rounds, in Triton: the same words on every device."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from transher.kernels.gpu.compiled import Compiled

__all__ = ["philox"]

# Of the algorithm (Salmon et al., 2011): what counters are multiplied with, and what the key grows by in each round.
_FACTOR_0, _FACTOR_1 = tl.constexpr(0xD2E7470EE14C6C93), tl.constexpr(0xCA5A826395121157)
_GROWTH_0, _GROWTH_1 = tl.constexpr(0x9E3779B97F4A7C15), tl.constexpr(0xBB67AE8584CAA73B)


# A number that is 1 would otherwise become a constant, which has no type to convert, and others would be compiled anew.
@triton.jit(do_not_specialize=["key_0", "key_1", "part", "counter"])
def _philox(out, key_0, key_1, part, counter, n, BLOCK: tl.constexpr):
    """out (n, 4): the words of the counters (1, 0, part, counter), (2, 0, part, counter), …"""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    zero = tl.zeros([BLOCK], tl.uint64)
    a, b, c, d = (place + 1).to(tl.uint64), zero, zero + part.to(tl.uint64), zero + counter.to(tl.uint64)
    k0, k1 = zero + key_0.to(tl.uint64), zero + key_1.to(tl.uint64)
    factor_0, factor_1 = tl.full([BLOCK], _FACTOR_0, tl.uint64), tl.full([BLOCK], _FACTOR_1, tl.uint64)
    for _ in tl.static_range(10):
        high_0, low_0, high_1, low_1 = tl.umulhi(factor_0, a), factor_0 * a, tl.umulhi(factor_1, c), factor_1 * c
        a, b, c, d = high_1 ^ b ^ k0, low_1, high_0 ^ d ^ k1, low_0
        k0 += tl.full([BLOCK], _GROWTH_0, tl.uint64)
        k1 += tl.full([BLOCK], _GROWTH_1, tl.uint64)
    out += 4 * place
    tl.store(out, a.to(tl.int64, bitcast=True), mask=place < n)
    tl.store(out + 1, b.to(tl.int64, bitcast=True), mask=place < n)
    tl.store(out + 2, c.to(tl.int64, bitcast=True), mask=place < n)
    tl.store(out + 3, d.to(tl.int64, bitcast=True), mask=place < n)


_TYPES = {"out": "*i64", "key_0": "i64", "key_1": "i64", "part": "i64", "counter": "i64", "n": "i32"}
PHILOX = Compiled(_philox, _TYPES, {"BLOCK": 256}, 4)


def philox(key: tuple[int, int], counter: tuple[int, int], out: Tensor) -> None:
    """As in `interface`; out has a multiple of four places."""
    n = out.numel() // 4
    PHILOX((PHILOX.blocks(n, "BLOCK"),), out, *key, *counter, n)
