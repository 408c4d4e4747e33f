"""The kernels in plain torch: the truth that tests compare with, and what runs on any device that no other serves.

Shapes: a query part is (B, k), candidates are (N, k) for `cross` and (B, k) for `pairs`; scores are (B, N) and (B,).
None of these functions ever holds a (B, N, k) tensor, neither forward nor for the backward pass: candidates go by in
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from transher.kernels.interface import Tensors
from transher.kernels.known import Known
from transher.kernels.pools import run_length

# Numbers of the differences of all queries to a block of candidates: on the CPU they stay in its cache, and on a GPU
# they are many enough to keep it busy: 64 MB.
_HELD_ON_CPU, _HELD = 1 << 15, 1 << 24


class _Formula(NamedTuple):
    """A distance of queries, parts (B, 1, k), to a block of candidates, rows (n, k) or (B, n, k), and its gradient."""

    distance: Callable[[Tensors, Tensor], Tensor]  # query, rows → (B, n)
    # query, rows, upstream (B, n, 1), gradients of the parts (B, k), which grow in place → what the rows' gradient
    # loses (B, n, k)
    gradient: Callable[[Tensors, Tensor, Tensor, Tensors], Tensor]


class Blocked(torch.autograd.Function):
    """Distances (B, N) by a formula, a block of candidates of every query at a time so that memory is bounded: of query
    b to row n of e or, with ids (B, N), to row ids[b, n]."""

    @staticmethod
    def forward(ctx: Any, formula: _Formula, ids: Tensor | None, e: Tensor, *query: Tensor) -> Tensor:
        ctx.formula = formula
        ctx.save_for_backward(ids, e, *query)
        distance = e.new_empty(len(query[0]), len(e) if ids is None else ids.shape[1])
        parts = tuple(part[:, None] for part in query)
        for block in _blocks(distance.shape[1], query[0]):
            distance[:, block] = formula.distance(parts, _candidates(e, ids, block))
        return distance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        ids, e, *query = ctx.saved_tensors
        (upstream,) = gradients
        d_query, de = tuple(torch.zeros_like(part) for part in query), torch.zeros_like(e)
        parts = tuple(part[:, None] for part in query)
        for block in _blocks(upstream.shape[1], query[0]):
            lost = ctx.formula.gradient(parts, _candidates(e, ids, block), upstream[:, block, None], d_query)
            if ids is None:
                de[block] = -lost.sum(0)
            else:
                de.index_add_(0, ids[:, block].T.reshape(-1), lost.transpose(0, 1).flatten(0, 1), alpha=-1)
        return None, None, de, *d_query


def _blocks(count: int, query: Tensor) -> Iterator[slice]:
    """0 … count in blocks of so many candidates that their differences to the queries (B, k) are bounded."""
    held = _HELD_ON_CPU if query.device.type == "cpu" else _HELD
    size = max(1, held // max(1, query.numel()))
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def _candidates(e: Tensor, ids: Tensor | None, block: slice) -> Tensor:
    return e[block] if ids is None else e[ids[:, block]]


def _scaled_l1_distance(query: Tensors, rows: Tensor) -> Tensor:
    q, s = query
    return torch.addcmul(q, s, rows, value=-1).abs_().sum(-1)


def _scaled_l1_gradient(query: Tensors, rows: Tensor, upstream: Tensor, d_query: Tensors) -> Tensor:
    q, s = query
    dq, ds = d_query
    sign = torch.addcmul(q, s, rows, value=-1).sign_().mul_(upstream)
    dq += sign.sum(1)
    ds -= (sign * rows).sum(1)
    return sign.mul_(s)


def _modulus_distance(query: Tensors, rows: Tensor) -> Tensor:
    real, imaginary = (query[0] - rows).chunk(2, -1)
    return torch.hypot(real, imaginary).sum(-1)


def _modulus_gradient(query: Tensors, rows: Tensor, upstream: Tensor, d_query: Tensors) -> Tensor:
    real, imaginary = (query[0] - rows).chunk(2, -1)
    # At modulus zero the direction is undefined; zero is a valid subgradient, and what the sign gives in L1.
    inverse = upstream / torch.hypot(real, imaginary).clamp_min_(torch.finfo(rows.dtype).tiny)
    direction = torch.cat([real * inverse, imaginary * inverse], -1)
    d_query[0].add_(direction.sum(1))
    return direction


_SCALED_L1 = _Formula(_scaled_l1_distance, _scaled_l1_gradient)
_MODULUS = _Formula(_modulus_distance, _modulus_gradient)


def _blocked(formula: _Formula, ids: Tensor | None, e: Tensor, *query: Tensor) -> Tensor:
    result: Tensor = Blocked.apply(formula, ids, e, *query)  # type: ignore[no-untyped-call]
    return result


def scaled_l1_cross(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (N, k) → distances (B, N): Σ_i |q[b, i] − s[b, i]·e[n, i]|."""
    return _blocked(_SCALED_L1, None, e, q, s)


def scaled_l1_listed(q: Tensor, s: Tensor, e: Tensor, ids: Tensor) -> Tensor:
    """(B, k), (B, k), (U, k), int64 (B, N) → distances (B, N) of query b to row ids[b, n] of e."""
    return _blocked(_SCALED_L1, ids, e, q, s)


def scaled_l1_pairs(q: Tensor, s: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k), (B, k) → distances (B,), candidate i for query i."""
    return (q - s * e).abs().sum(-1)


def complex_modulus_cross(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (N, 2k), rows [real | imaginary] → distances (B, N): Σ_i |q[b, i] − e[n, i]|."""
    return _blocked(_MODULUS, None, e, q)


def complex_modulus_pools(q: Tensor, e: Tensor, ids: Tensor) -> Tensor:
    """(B, 2k), (U, 2k), int64 (P, N) → distances (B, N) of query b to the rows of e in its pool."""
    runs = q.split(run_length(len(q), len(ids)))
    return torch.cat([complex_modulus_cross(run, e.index_select(0, pool)) for run, pool in zip(runs, ids, strict=True)])


def complex_modulus_pairs(q: Tensor, e: Tensor) -> Tensor:
    """(B, 2k), (B, 2k) → distances (B,)."""
    real, imaginary = (q - e).chunk(2, -1)
    # hypot's own gradient is NaN at zero; lifting the zeros by the smallest number keeps it finite.
    return (real.square() + imaginary.square()).clamp_min(torch.finfo(q.dtype).tiny).sqrt().sum(-1)


def squared_l2_cross(q: Tensor, e: Tensor) -> Tensor:
    """(B, k), (N, k) → ‖q − e‖² (B, N), by one matrix product."""
    return (q.square().sum(-1)[:, None] + e.square().sum(-1) - 2 * q @ e.T).clamp_min(0)


def squared_l2_pairs(q: Tensor, e: Tensor) -> Tensor:
    """(B, k), (B, k) → ‖q − e‖² (B,)."""
    return (q - e).square().sum(-1)


def self_adversarial(positive: Tensor, negative: Tensor, valid: Tensor | None, weights: Tensor, alpha: float) -> Tensor:
    """(B,), (B, N), bool (B, N) or None, (B,) → (L⁺ + L⁻)/2, without gradient through
    p = softmax(α f) over the valid negatives."""
    sharpened = alpha * negative.detach()
    if valid is not None:
        sharpened = sharpened.masked_fill(~valid, -torch.inf)
        # A masked score may be anything, even infinite: it must not meet a zero weight.
        negative = negative.masked_fill(~valid, 0)
    share = (sharpened - sharpened.amax(-1, keepdim=True)).exp() if negative.shape[1] else sharpened
    share = share / share.sum(-1, keepdim=True)
    if valid is not None:
        share = share.masked_fill(~valid.any(-1, keepdim=True), 0)
    losses = softplus(-positive) + (share * softplus(negative)).sum(-1)
    return (weights * losses).sum() / (2 * weights.sum())


class Adam(NamedTuple):
    """The numbers of a step of Adam. `step` counts from 1 over all steps, whichever rows they touched: it sets the bias
    correction."""

    lr: float
    beta1: float
    beta2: float
    eps: float
    step: int


def adam_rows(weight: Tensor, m: Tensor, v: Tensor, ids: Tensor, gradient: Tensor, adam: Adam) -> None:
    """One step of Adam in place on distinct rows `ids`."""
    lr, beta1, beta2, eps, step = adam
    first = m[ids].mul_(beta1).add_(gradient, alpha=1 - beta1)
    second = v[ids].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    m[ids], v[ids] = first, second
    below = second.sqrt().mul_((1 - beta2**step) ** -0.5).add_(eps)
    weight[ids] = weight[ids].addcdiv_(first, below, value=-lr / (1 - beta1**step))


def mask_known(valid: Tensor, negatives: Tensor, known: Known) -> None:
    """valid[b, n] = False in place where negatives[n] is a known answer of query b."""
    order = torch.argsort(negatives, stable=True)
    queries, ids = known.pairs()
    first, last = (torch.searchsorted(negatives[order], ids, right=right) for right in (False, True))
    places, where = Known(first, last, order.int()).pairs()  # an id may lie at several places of the pool
    valid[queries[places], where] = False


def count_better(scores: Tensor, answer: Tensor, first_id: int, known: Known, better: Tensor, tied: Tensor) -> None:
    """Adds to better and tied (B,), in place, how many of the scores (B, C) of the candidates first_id … exceed or
    equal the answer's score (B,), known answers aside."""
    queries, ids = known.pairs()
    here = (ids >= first_id) & (ids < first_id + scores.shape[1])
    counted = torch.ones_like(scores, dtype=torch.bool)
    counted[queries[here], ids[here] - first_id] = False
    better += ((scores > answer[:, None]) & counted).sum(1)
    tied += ((scores == answer[:, None]) & counted).sum(1)


def merge_best(scores: Tensor, first_id: int, excluded: Known, best: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The best scores (B, size) and ids (B, size) of those so far and of the scores (B, C) of candidates first_id …;
    equal scores: the lower id first."""
    queries, known = excluded.pairs()
    here = (known >= first_id) & (known < first_id + scores.shape[1])
    unused = torch.iinfo(torch.int64).max
    fresh = torch.arange(first_id, first_id + scores.shape[1], device=scores.device).expand(scores.shape).clone()
    fresh[queries[here], known[here] - first_id] = unused
    scores = scores.nan_to_num(-torch.inf).masked_fill(fresh == unused, -torch.inf)
    fresh = fresh.masked_fill(scores == -torch.inf, unused)
    # Everything so far has lower ids than this chunk: of equal scores the one at the lower place comes first.
    merged, places = _first_places(torch.cat([best, scores], 1), best.shape[1])
    return merged, torch.cat([ids, fresh], 1).gather(1, places)


def _first_places(scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The `size` largest of scores (B, N) and their places, largest first; of equal ones the lower place first."""
    values, places = scores.topk(size, dim=1)
    last = values[:, -1:]
    # Which of the scores that equal the last one it takes is topk's affair: where it left some out, all are sorted.
    cut = ((scores == last).sum(1) > (values == last).sum(1)) & (last[:, 0] != -torch.inf)
    if bool(cut.any()):
        sorted_values, order = scores[cut].sort(dim=1, descending=True, stable=True)
        values[cut], places[cut] = sorted_values[:, :size], order[:, :size]
    places = places.sort(dim=1).values
    values, order = scores.gather(1, places).sort(dim=1, descending=True, stable=True)
    return values, places.gather(1, order)


def thin_(gradient: Tensor, share: float, key: int) -> None:
    """Keeps about `share` of each row of the gradient (B, N), in place and without bias: entries of at least a
    threshold t as they are, the others with probability |g|/t, and then as ±t."""
    size, wanted = gradient.abs(), share * gradient.shape[1]
    threshold = size.sum(1, keepdim=True) / wanted
    for _ in range(4):  # towards the t at which the expected number of survivors is as wanted
        light = size < threshold
        places = wanted - (~light).sum(1, keepdim=True)
        better = (size * light).sum(1, keepdim=True) / places
        threshold = torch.where(places >= 1, better, threshold)
    drawn = _uniform(key, gradient.shape, gradient.device)
    kept = threshold.copysign(gradient).where(drawn * threshold < size, 0)
    gradient.copy_(kept.where(size < threshold, gradient))


def _uniform(key: int, shape: torch.Size, device: torch.device) -> Tensor:
    """Numbers in [0, 1) that depend on the key and the place alone: a hash of a counter, in 32 bits."""
    mask = 0xFFFFFFFF
    x = key ^ (torch.arange(shape.numel(), device=device) * 0x9E3779B1 & mask)
    x = (x ^ (x >> 16)) * 0x7FEB352D & mask
    x = (x ^ (x >> 15)) * 0x846CA68B & mask
    return ((x ^ (x >> 16)) >> 8).view(shape).float() * 2.0**-24
