"""Ranking and answering over candidates that go by in chunks, so that memory is bounded by a chunk.

Exact: counts and best candidates are those of the float32 distances, whatever the number of threads or the chunk size.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from transher.kernels import native, reference
from transher.kernels.known import Known

# Consecutive candidates: the id of the first, and their rows as the score sees them (C, d).
Chunk = tuple[int, Tensor]


def scaled_l1_count(
    q: Tensor, s: Tensor, limits: Tensor, chunks: Iterable[Chunk], known: Known
) -> tuple[Tensor, Tensor]:
    """q, s: (B, k), limits: (B,) distances of the answers → how many candidates, known ones aside, are nearer than the
    limit and how many just as near: int64 (B,), (B,). Queries of one relation share s: side by side they go faster."""
    better, tied = torch.zeros(2, len(q), dtype=torch.int64)
    known = known.checked()
    q, s, limits = q.contiguous(), s.contiguous(), limits.contiguous()
    for first, candidates in chunks:
        if not native.serves(q, s, limits, candidates):
            distances = reference.scaled_l1_cross(q, s, candidates)
            reference.count_better(-distances, -limits, first, known, better, tied)
            continue
        candidates = candidates.contiguous()
        native.module.scaled_l1_count(
            native.threads(), q.data_ptr(), s.data_ptr(), limits.data_ptr(), *q.shape, candidates.data_ptr(),
            len(candidates), first, known.starts.data_ptr(), known.ends.data_ptr(), known.ids.data_ptr(),
            len(known.ids), better.data_ptr(), tied.data_ptr(),
        )  # fmt: skip
    return better, tied


def scaled_l1_top(q: Tensor, s: Tensor, chunks: Iterable[Chunk], size: int, excluded: Known) -> tuple[Tensor, Tensor]:
    """q, s: (B, k) → distances (B, size), nearest first, and ids (B, size) of the nearest candidates that are not
    excluded. Of equal distances the lower id comes first; places beyond the last candidate hold infinity and −1."""
    distances = torch.full((len(q), size), torch.inf)
    ids = torch.full((len(q), size), torch.iinfo(torch.int64).max)
    excluded = excluded.checked()
    q, s = q.contiguous(), s.contiguous()
    for first, candidates in chunks:
        if not native.serves(q, s, candidates):
            scores = -reference.scaled_l1_cross(q, s, candidates)
            negated, ids = reference.merge_best(scores, first, excluded, -distances, ids)
            distances = -negated
            continue
        candidates = candidates.contiguous()
        native.module.scaled_l1_top(
            native.threads(), q.data_ptr(), s.data_ptr(), *q.shape, candidates.data_ptr(), len(candidates), first,
            excluded.starts.data_ptr(), excluded.ends.data_ptr(), excluded.ids.data_ptr(), len(excluded.ids), size,
            distances.data_ptr(), ids.data_ptr(),
        )  # fmt: skip
    return distances, ids.masked_fill_(ids == torch.iinfo(torch.int64).max, -1)


def normalise(rows: Tensor) -> Tensor:
    """rows: (…, k) → ê = e/‖e‖₂ of each. Without a gradient to follow, a row's bits do not depend on its neighbours."""
    if not native.serves(rows) or (rows.requires_grad and torch.is_grad_enabled()):
        return torch.nn.functional.normalize(rows, dim=-1)
    rows = rows.contiguous()
    out = torch.empty_like(rows)
    k = rows.shape[-1]
    native.module.normalise_rows(native.threads(), rows.data_ptr(), rows.numel() // k if k else 0, k, out.data_ptr())
    return out
