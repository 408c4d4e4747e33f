"""How many candidates beat an answer and how many tie with it: the one inner loop of full ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.errors import TransherError
from transher.graph.known import KnownAnswers
from transher.kernels import Known
from transher.models.families import ScaledL1Model
from transher.models.model import Side
from transher.models.scorer import Scorer, slices

Ids = NDArray[np.integer[Any]]
Counts = NDArray[np.int64]

# Scores of a chunk of queries against all entities: 64 MB in single precision.
_SCORES = 1 << 24
# Candidate rows, and the scores of one chunk of candidates, before they go into the matrix: 16 MB each.
_CANDIDATE_VALUES = 1 << 22
# Scores compared at a time: 1 MB, which stays in the processor's cache.
_COMPARED = 1 << 18


def queries_at_a_time(scorer: Scorer) -> int:
    """How many queries one call may count without their scores, or their relations' rows, outgrowing the memory."""
    if isinstance(scorer.model, ScaledL1Model):  # which holds queries and answers, and no scores
        return max(1, _SCORES // scorer.model.relation_width)
    return max(1, _SCORES // max(scorer.entity_count, scorer.model.relation_width))


def count_better_and_tied(
    scorer: Scorer, anchors: Ids, relations: Ids, answers: Ids, side: Side, known: KnownAnswers
) -> tuple[Counts, Counts]:
    """How many entities, other than the answer and the known answers, score above it and how many the same.

    anchors, relations, answers: ids (B,) → two counts (B,). A query that occurs with several answers is scored once.
    The answer's score comes from the same matrix as its rivals', so equal rows tie exactly.
    """
    if isinstance(scorer.model, ScaledL1Model):
        return _count_by_distance(scorer, scorer.model, anchors, relations, answers, side, known)
    distinct, row_of = np.unique(np.stack([anchors, relations], 1), axis=0, return_inverse=True)
    scores = _scores(scorer, distinct[:, 0], distinct[:, 1], side)
    rows = row_of.reshape(-1)
    own = scores[rows, answers][:, None]

    # A removed candidate becomes NaN, which is neither better than anything nor equal to anything.
    offsets, removed = known.of(distinct[:, 0], distinct[:, 1])
    scores[np.repeat(np.arange(len(distinct)), np.diff(offsets)), removed] = np.nan
    better, tied = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for part in slices(len(rows), max(1, _COMPARED // scorer.entity_count)):
        rivals = scores[rows[part]]
        rivals[np.arange(len(rivals)), answers[part]] = np.nan
        better[part] = np.count_nonzero(rivals > own[part], axis=1)
        tied[part] = np.count_nonzero(rivals == own[part], axis=1)
    return better, tied


@torch.no_grad()
def _count_by_distance(
    scorer: Scorer, model: ScaledL1Model, anchors: Ids, relations: Ids, answers: Ids, side: Side, known: KnownAnswers
) -> tuple[Counts, Counts]:
    """The same for distances, by a kernel that holds no score matrix and stops at the answer's distance."""
    query = scorer.query(as_tensor(anchors), as_tensor(relations), side)
    rows = scorer.candidates(as_tensor(answers))
    refuse_nan(model.pairs(query, rows))
    starts, ends = (torch.from_numpy(bounds) for bounds in known.ranges(anchors, relations))
    better, tied = model.count_better(
        query, rows, scorer.chunks(), Known(starts, ends, torch.from_numpy(known.answers))
    )
    # An answer that is not among the known ones has been met as a candidate, and ties with itself.
    return better.numpy(), tied.numpy() - ~known.has(anchors, relations, answers)


def refuse_nan(scores: Tensor) -> None:
    """NaN compares as false with everything, so a broken model would seem to rank every answer first."""
    if scores.numel() and bool(scores.amax().isnan()):
        raise TransherError(
            "The model gives scores that are not a number (NaN), so its answers cannot be ranked. Its training has "
            "diverged: train again with a smaller learning rate, or go back to an earlier checkpoint."
        )


def _scores(scorer: Scorer, anchors: Ids, relations: Ids, side: Side) -> NDArray[np.float32]:
    """Scores (B, entities), filled by chunks of candidates that are small beside it."""
    chunk = max(1, _CANDIDATE_VALUES // max(len(anchors), scorer.model.entity_width))
    scores = scorer.scores(as_tensor(anchors), as_tensor(relations), side, chunk)
    refuse_nan(scores)
    # NumPy counts true values as they are; torch's sum first copies each to eight bytes, and takes far longer.
    return scores.numpy()


def as_tensor(ids: Ids) -> Tensor:
    """Ids as torch indexes with them."""
    return torch.from_numpy(ids.astype(np.int64))
