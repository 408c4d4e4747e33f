"""Sampled ranking, as OGB's: the answer against the candidates that its split supplies for it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.errors import UsageError
from transher.evaluation.counting import Counts, Ids, as_tensor, refuse_nan
from transher.evaluation.ranking import columns, rank_in_chunks, refuse_foreign_ids
from transher.evaluation.ranks import Progress, Ranks
from transher.graph.graph import Candidates, Triples
from transher.models.model import Query, Side
from transher.models.scorer import Scorer, slices

# Distinct entity rows of a chunk, as the score sees them: 32 MB in single precision.
_ROW_VALUES = 1 << 23
# A query is repeated beside each of its candidates; some 2 MB of that at a time stay in the processor's cache.
_PAIR_VALUES = 1 << 19


def rank_among_candidates(
    scorer: Scorer, triples: Triples, candidates: Candidates, progress: Progress | None = None
) -> Ranks:
    """Ranks of both sides of `triples` (n, 3) among their own candidates (n, m); the realistic rank is OGB's,
    ½(#{negative > positive} + #{negative ≥ positive}) + 1. Nothing is filtered: the candidates are what they are."""
    refuse_foreign_ids(scorer, triples)
    negatives: dict[Side, NDArray[np.int32]] = {"head": candidates.head, "tail": candidates.tail}
    for side, ids in negatives.items():
        if len(ids) != len(triples):
            raise UsageError(f"There are {len(triples)} triples, but candidates for the {side}s of {len(ids)}.")

    def count(chunk: NDArray[np.int64], side: Side) -> tuple[Counts, Counts]:
        anchors, relations, answers = columns(triples[chunk], side)
        return count_among(scorer, anchors, relations, answers, side, negatives[side][chunk])

    ids_at_a_time = _ROW_VALUES // scorer.model.entity_width
    widest = 1 + max(ids.shape[1] for ids in negatives.values())
    return rank_in_chunks(triples, max(1, ids_at_a_time // widest), count, progress)


def count_among(
    scorer: Scorer, anchors: Ids, relations: Ids, answers: Ids, side: Side, negatives: Ids
) -> tuple[Counts, Counts]:
    """How many of its negatives (B, m) score above the answer (B,) and how many the same: two counts (B,).

    The answer is scored as one more candidate, so that it ties exactly with a negative that is the same entity.
    """
    ids = np.concatenate([answers[:, None], negatives], axis=1)
    scores = score_own(scorer, anchors, relations, side, ids)
    refuse_nan(scores)
    own, rivals = scores.numpy()[:, :1], scores.numpy()[:, 1:]
    return np.count_nonzero(rivals > own, axis=1), np.count_nonzero(rivals == own, axis=1)


@torch.no_grad()
def score_own(scorer: Scorer, anchors: Ids, relations: Ids, side: Side, candidates: Ids) -> Tensor:
    """Scores (B, m) of B queries, each against its own candidates (B, m)."""
    distinct, row_of = np.unique(candidates, return_inverse=True)
    rows = scorer.candidates(as_tensor(distinct))
    own = as_tensor(row_of.reshape(candidates.shape))
    query = scorer.query(as_tensor(anchors), as_tensor(relations), side)
    query_width = max(part.shape[1] for part in query)
    # A query as wide as a matrix (TransR) costs too much to repeat, and is crossed with its candidates instead.
    score, width = (_cross, query_width) if query_width > 8 * rows.shape[1] else (_repeat, rows.shape[1])
    scores = torch.empty(candidates.shape)
    for part in slices(len(scores), max(1, _PAIR_VALUES // (candidates.shape[1] * width))):
        scores[part] = score(scorer, tuple(values[part] for values in query), rows, own[part])
    return scores


def _repeat(scorer: Scorer, query: Query, rows: Tensor, own: Tensor) -> Tensor:
    """Scores (b, m) by pairs: query i beside each of `rows[own[i]]`."""
    repeated = tuple(part.repeat_interleave(own.shape[1], 0) for part in query)
    return scorer.model.pairs(repeated, rows[own.view(-1)]).view(own.shape)


def _cross(scorer: Scorer, query: Query, rows: Tensor, own: Tensor) -> Tensor:
    """Scores (b, m), one query at a time against `rows[own[i]]`."""
    one_by_one = (tuple(part[i : i + 1] for part in query) for i in range(len(own)))
    return torch.cat([scorer.model.cross(one, rows[mine]) for one, mine in zip(one_by_one, own, strict=True)])
