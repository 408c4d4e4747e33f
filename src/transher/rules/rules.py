"""Rules as a scorer: a candidate's score is made of the strongest rules that predict it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.graph.graph import Side
from transher.graph.known import KnownTriples
from transher.kernels.rules import Rows, RuleIndex, Steps, Worth, confidences
from transher.rules.worth import USUAL, fit_worth
from transher.scorer import Scored, Scorer, asked_columns

_PAIRS_OF_QUERY = 400  # a query against all entities takes as long as so many single triples
_AT_A_TIME = 1 << 16  # triples that are explained at a time


class Reasons(NamedTuple):
    """The strongest rules that predict each of n triples: (n, m) each, the strongest first."""

    numbers: NDArray[np.int64]  # rows of `Rules.rows`; −1 where there are fewer
    confidences: NDArray[np.float32]  # 0 where there are fewer

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rules predict each triple, of the m that were asked for: (n,)."""
        found: NDArray[np.int64] = (self.numbers >= 0).sum(axis=1)
        return found

    @property
    def strongest(self) -> NDArray[np.float32]:
        """The largest confidence (n,); 0 where no rule predicts a triple."""
        found: NDArray[np.float32] = self.confidences.max(axis=1, initial=0)
        return found


class Rules(Scorer):
    """Rules of a graph, and the triples that they were mined in and are applied to.

    The score of a triple is what its strongest rules are worth, see `transher.kernels.rules.Worth`. Both sides have the
    same score.

    A triple's own presence does not support it. No path of a body goes over the triple that it speaks for, and for a
    triple that was trained on, a rule is as confident as if it had not been: (support − 1) / (pairs + 5). Only where
    a rule was counted on a sample of its pairs does its confidence stay, since one pair of hundreds is next to nothing.
    So scores of trained and of new triples are comparable.
    """

    def __init__(self, rows: Rows, trained: KnownTriples, worth: Worth = USUAL) -> None:
        """rows: (n, 9), see `transher.kernels.rules`."""
        self.rows, self.worth, self._trained = rows, worth, trained
        index = trained.answers("tail")
        heads, relations = index.pairs()
        triples = np.stack([heads, relations, index.answers], axis=1).reshape(-1, 3)
        self._steps = Steps(triples, trained.entity_count, trained.relation_count)
        self._index = RuleIndex(self._steps, rows, worth)

    def __reduce__(self) -> tuple[type[Rules], tuple[Rows, KnownTriples, Worth]]:
        """For other processes: the index is native, and made anew."""
        return Rules, (self.rows, self._trained, self.worth)

    @property
    def entity_count(self) -> int:
        return self._trained.entity_count

    @property
    def relation_count(self) -> int:
        return self._trained.relation_count

    @property
    def dense(self) -> bool:
        return False

    @property
    def trained(self) -> KnownTriples:
        """The triples that bodies are followed in."""
        return self._trained

    @property
    def confidences(self) -> NDArray[np.float64]:
        """support / (pairs + 5) of every rule: (n,)."""
        return confidences(self.rows)

    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        if candidates is not None and len(candidates) < _PAIRS_OF_QUERY:
            return self.score_own(anchors, relations, side, candidates.expand(len(anchors), -1))
        scores = self._index.score(anchors, relations, side == "tail")
        return scores if candidates is None else scores[:, candidates]

    def score_own(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor) -> Tensor:
        if candidates.shape[1] >= _PAIRS_OF_QUERY:
            return super().score_own(anchors, relations, side, candidates)
        answers = candidates.reshape(-1)
        given, by = (ids.repeat_interleave(candidates.shape[1]) for ids in (anchors, relations))
        columns = (given, by, answers) if side == "tail" else (answers, by, given)
        return self.score_triples(torch.stack(columns, 1), side).reshape(candidates.shape)

    def score_triples(self, triples: Tensor, side: Side = "tail") -> Tensor:
        """One by one, or a query at a time where many triples share it, which comes to the same scores."""
        anchors, relations, _ = asked_columns(triples.long(), side)
        _, query_of, counts = torch.unique(
            anchors * self.relation_count + relations, return_inverse=True, return_counts=True
        )
        scores = torch.empty(len(triples))
        single = counts[query_of] < _PAIRS_OF_QUERY
        for part in torch.nonzero(single)[:, 0].split(_AT_A_TIME):
            scores[part] = self._index.explain(triples[part], 0)[0]
        if not bool(single.all()):
            scores[~single] = super().score_triples(triples[~single], side)
        return scores

    def scored(self, triples: Tensor) -> Scored:
        strengths = self.strengths(triples.numpy())
        return Scored(torch.from_numpy(strengths[0]), None, strengths)

    def strengths(self, triples: NDArray[np.integer]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The scores (n,) of triples (n, 3), and the confidence (n,) of the strongest rule for each, 0 without one: in
        one pass, where `score` and `reasons` take two."""
        given = torch.from_numpy(np.ascontiguousarray(triples, dtype=np.int64).reshape(-1, 3))
        parts = [self._index.explain(part, 1) for part in given.split(_AT_A_TIME)]
        scores, strongest = (torch.cat([part[place].reshape(-1) for part in parts]) for place in (0, 2))
        return scores.numpy(), strongest.numpy()

    def reasons(self, triples: NDArray[np.integer], most: int = 8) -> Reasons:
        """The `most` strongest rules that predict each of triples (n, 3), with their confidences."""
        given = torch.from_numpy(np.ascontiguousarray(triples, dtype=np.int64).reshape(-1, 3))
        found = [self._index.explain(part, most)[1:] for part in given.split(_AT_A_TIME) if len(part)]
        if not found:
            return Reasons(np.empty((0, most), np.int64), np.empty((0, most), np.float32))
        numbers, strengths = (torch.cat(column).numpy() for column in zip(*found, strict=True))
        return Reasons(numbers, strengths)

    def fitted(self, validation: NDArray[np.integer], known: KnownTriples, sample: int = 600) -> Rules:
        """The same rules, worth what suits validation triples (n, 3), or a sample of them, best, with `known` answers
        filtered out."""
        if not len(validation) or not len(self.rows):
            return self
        return Rules(self.rows, self._trained, fit_worth(self._steps, self.rows, validation, known, sample))


def rules_of(scorer: Scorer) -> Rules | None:
    """The rules that a scorer is or blends; None without any."""
    return next((part for part in scorer.parts if isinstance(part, Rules)), None)
