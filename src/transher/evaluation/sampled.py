"""Sampled ranking, as OGB's: the answer against the candidates that its split supplies for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transher.errors import UsageError
from transher.evaluation.ranking import Counts, as_tensor, columns, rank_in_chunks, refuse_foreign_ids
from transher.evaluation.ranks import Progress, Ranks
from transher.graph.graph import Candidates, Side, Triples
from transher.scorer import Scorer, refuse_nan

_CANDIDATES = 1 << 20  # of the queries of a chunk


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
        # The answer is scored as one more candidate, so that it ties exactly with a negative that is the same entity.
        ids = as_tensor(np.concatenate([answers[:, None], negatives[side][chunk]], axis=1))
        scores = scorer.score_own(as_tensor(anchors), as_tensor(relations), side, ids)
        refuse_nan(scores)
        own, rivals = scores.numpy()[:, :1], scores.numpy()[:, 1:]
        return np.count_nonzero(rivals > own, axis=1), np.count_nonzero(rivals == own, axis=1)

    widest = 1 + max(ids.shape[1] for ids in negatives.values())
    return rank_in_chunks(triples, max(1, _CANDIDATES // widest), count, progress)
