"""The best candidates of a query, with the table of entities going by in chunks."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.models.model import Side
from transher.models.scorer import Scorer, slices

_CHUNK_BYTES = 1 << 26  # of candidate rows, and of scores


@torch.no_grad()
def top_candidates(
    scorer: Scorer,
    anchors: Tensor,
    relations: Tensor,
    side: Side,
    count: int,
    excluded: tuple[NDArray[np.int64], NDArray[np.int32]] | None = None,
) -> tuple[Tensor, Tensor]:
    """Scores and ids (B, count) of the best candidates, best first; equal scores by ascending id. `excluded`: offsets
    (B + 1,) and ids, per query, that are left out. Where there are fewer candidates, the rest is −inf and −1."""
    query = scorer.query(anchors, relations, side)
    best_scores = torch.full((len(anchors), count), -torch.inf)
    best_ids = torch.full((len(anchors), count), -1)
    width = scorer.entity_weights.shape[1]
    size = max(count, min(_CHUNK_BYTES // (4 * width), _CHUNK_BYTES // (4 * max(1, len(anchors)))))
    for part in slices(scorer.entity_count, size):
        scores = scorer.model.cross(query, scorer.candidates(part))
        if excluded is not None:
            _leave_out(scores, part, *excluded)
        merged = torch.cat([best_scores, scores], 1)
        ids = torch.cat([best_ids, torch.arange(part.start, part.stop).expand(len(anchors), -1)], 1)
        bars = merged.topk(count, 1).values[:, -1]
        for row, bar in enumerate(bars):
            # topk alone promises no order of equals: a stable sort of all that reach the bar keeps lower ids first.
            reaching = (merged[row] >= bar).nonzero()[:, 0]
            order = reaching[merged[row, reaching].sort(descending=True, stable=True).indices[:count]]
            best_scores[row], best_ids[row] = merged[row, order], ids[row, order]
    best_ids[best_scores == -torch.inf] = -1
    return best_scores, best_ids


def _leave_out(scores: Tensor, part: slice, offsets: NDArray[np.int64], ids: NDArray[np.int32]) -> None:
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    here = (ids >= part.start) & (ids < part.stop)
    scores[torch.from_numpy(rows[here]), torch.from_numpy(ids[here].astype(np.int64) - part.start)] = -torch.inf
