"""Ranking and answering over candidates that go by in chunks, so that memory is bounded by a chunk.

Exact: counts and best candidates are those of the float32 distances, whatever the number of threads or the chunk size.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from transher.kernels import native, reference
from transher.kernels.choice import chosen_for
from transher.kernels.known import Known

# Consecutive candidates: the id of the first, and their rows as the score sees them (C, d).
Chunk = tuple[int, Tensor]

_MOST_PLACES = 1 << 28  # queries × answers that may be asked for at once: 3 GB


def scaled_l1_count(
    q: Tensor, s: Tensor, limits: Tensor, chunks: Iterable[Chunk], known: Known
) -> tuple[Tensor, Tensor]:
    """q, s: (B, k), limits: (B,) distances of the answers → how many candidates, known ones aside, are nearer than the
    limit and how many just as near: int64 (B,), (B,). Queries of one relation share s: side by side they go faster."""
    better, tied = torch.zeros(2, len(q), dtype=torch.int64, device=q.device)
    known = known.checked()
    q, s, limits = q.contiguous(), s.contiguous(), limits.contiguous()
    for first, candidates in chunks:
        module = chosen_for(q, s, limits, candidates)
        if module is None:
            distances = reference.scaled_l1_cross(q, s, candidates)
            reference.count_better(-distances, -limits, first, known, better, tied)
            continue
        module.scaled_l1_count(native.threads(), q, s, limits, candidates.contiguous(), first, *known, better, tied)
    return better, tied


def scaled_l1_top(q: Tensor, s: Tensor, chunks: Iterable[Chunk], size: int, excluded: Known) -> tuple[Tensor, Tensor]:
    """q, s: (B, k) → distances (B, size), nearest first, and ids (B, size) of the nearest candidates that are not
    excluded. Of equal distances the lower id comes first; places beyond the last candidate hold infinity and −1."""
    if not 0 <= len(q) * size <= _MOST_PLACES:
        raise ValueError(f"the {size} nearest of {len(q)} queries: size must be 0 or more, and fit into memory.")
    distances = torch.full((len(q), size), torch.inf, device=q.device)
    ids = torch.full((len(q), size), torch.iinfo(torch.int64).max, device=q.device)
    excluded = excluded.checked()
    q, s = q.contiguous(), s.contiguous()
    for first, candidates in chunks:
        module = chosen_for(q, s, candidates)
        if module is None:
            scores = -reference.scaled_l1_cross(q, s, candidates)
            negated, ids = reference.merge_best(scores, first, excluded, -distances, ids)
            distances = -negated
            continue
        module.scaled_l1_top(native.threads(), q, s, candidates.contiguous(), first, *excluded, distances, ids)
    return distances, ids.masked_fill_(ids == torch.iinfo(torch.int64).max, -1)


def normalise(rows: Tensor) -> Tensor:
    """rows: (…, k) → ê = e/‖e‖₂ of each. Without a gradient to follow, a row's bits do not depend on its neighbours."""
    module = chosen_for(rows)
    if module is None or (rows.requires_grad and torch.is_grad_enabled()):
        return torch.nn.functional.normalize(rows, dim=-1)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    if rows.numel():
        k = rows.shape[-1]
        module.normalise_rows(native.threads(), rows.contiguous().view(-1, k), out.view(-1, k))
    return out
