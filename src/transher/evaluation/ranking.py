"""Filtered full ranking: every triple asked twice, against all entities but the other known answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.deadline import slices
from transher.errors import UsageError
from transher.evaluation.ranks import Progress, Ranks, both_sides
from transher.graph.graph import SIDES, Side, Triples
from transher.graph.known import KnownAnswers
from transher.scorer import Scorer, as_known

Counts = NDArray[np.int64]


class Answers(Protocol):
    """The known answers of either side: `KnownTriples`, or those of one worker's candidates."""

    def answers(self, side: Side) -> KnownAnswers: ...


def rank(scorer: Scorer, triples: Triples, known: Answers, progress: Progress | None = None) -> Ranks:
    """Ranks of both sides of `triples` (n, 3) among all entities but the other known answers: `graph.known` for full
    ranking. Memory does not grow with their number."""
    refuse_foreign_ids(scorer, triples)

    def count(chunk: NDArray[np.int64], side: Side) -> tuple[Counts, Counts]:
        anchors, relations, answers = columns(triples[chunk], side)
        ids = (as_tensor(anchors), as_tensor(relations), as_tensor(answers))
        better, tied = scorer.count_better(*ids, side, as_known(known.answers(side), anchors, relations))
        return better.numpy(), tied.numpy()

    return rank_in_chunks(triples, scorer.queries_at_a_time, count, progress)


def rank_in_chunks(
    triples: Triples,
    size: int,
    count: Callable[[NDArray[np.int64], Side], tuple[Counts, Counts]],
    progress: Progress | None,
) -> Ranks:
    """Ranks from `count`, which gives (better, tied) of a chunk of triples, chosen by position, on one side."""
    counts: dict[Side, tuple[Counts, Counts]] = {}
    for number, side in enumerate(SIDES):
        better, tied = np.empty(len(triples), np.int64), np.empty(len(triples), np.int64)
        done = number * len(triples)
        for chunk in by_relation(triples, side, size):
            better[chunk], tied[chunk] = count(chunk, side)
            done += len(chunk)
            if progress is not None:
                progress(done, 2 * len(triples))
        counts[side] = better, tied
    return both_sides(triples, counts)


def by_relation(triples: Triples, side: Side, size: int) -> Iterator[NDArray[np.int64]]:
    """Positions of the triples in chunks of `size`, the same queries side by side and relations together."""
    anchors, relations, _ = columns(triples, side)
    order = np.lexsort((anchors, relations))
    for chunk in slices(len(order), size):
        yield order[chunk]


def columns(triples: Triples, side: Side) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Anchors, relations and answers (n,) of triples when `side` is asked for."""
    head, relation, tail = triples.T
    return (head, relation, tail) if side == "tail" else (tail, relation, head)


def refuse_foreign_ids(scorer: Scorer, triples: Triples) -> None:
    for ids, count, kind in (
        (triples[:, ::2], scorer.entity_count, "entities"),
        (triples[:, 1], scorer.relation_count, "relations"),
    ):
        if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < count:
            raise UsageError(
                f"The triples name {kind} from {ids.min()} to {ids.max()}, but the model has {count} of them. "
                "It was trained on another graph: evaluate it on its own."
            )


def as_tensor(ids: NDArray[np.integer[Any]]) -> Tensor:
    """Ids as torch indexes with them."""
    return torch.from_numpy(ids.astype(np.int64))
