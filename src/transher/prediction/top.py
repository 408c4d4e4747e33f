"""The best candidates of a query."""

from __future__ import annotations

import torch
from torch import Tensor

from transher.kernels import Known
from transher.models.model import Side
from transher.models.scorer import Scorer


@torch.no_grad()
def top_candidates(
    scorer: Scorer, anchors: Tensor, relations: Tensor, side: Side, count: int, excluded: Known | None = None
) -> tuple[Tensor, Tensor]:
    """Scores and ids (B, count) of the best candidates that are not excluded, best first; equal scores by ascending id.
    Where there are fewer candidates, the rest is −inf and −1. The table of entities goes by in chunks."""
    query = scorer.query(anchors, relations, side)
    return scorer.model.best(query, scorer.chunks(), count, excluded or Known.none(len(anchors)))
