"""Logical rules: finding and counting them in a graph, and what they predict. Native, or through the slow reference.

A step is named by its end: end r leads from a head of relation r to its tails, end r + R from a tail to its heads. A
rule is a row of int32 with the columns of `Column`: closed, relation(x, y) ⇐ a path of one to three steps from x to y,
with end = the relation and answer = −1; or with constants, end(x, answer) ⇐ step(x, value), where value −1 is anything.

Paths are simple: no entity comes twice, and triples of an entity with itself are no steps. So nothing that speaks for a
triple goes over the triple itself.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.kernels import native

if TYPE_CHECKING:
    from transher.kernels.interface import NativeRows

CAUTION = 5.0  # pairs added to those of a rule: one hit out of one is no 100 %
COUNTED = 16  # strongest rules of a candidate that count
NONE = -1

Rows = NDArray[np.int32]


class Column(IntEnum):
    """Columns of a rule."""

    END = 0
    ANSWER = 1
    FIRST = 2  # ends of the body; unused ones are −1
    SECOND = 3
    THIRD = 4
    VALUE = 5
    SUPPORT = 6
    PAIRS = 7
    SAMPLED = 8  # 1 if support and pairs are of a sample of the pairs


BODY = slice(Column.FIRST, Column.THIRD + 1)
KINDS = 5  # closed rules of one, two and three steps; rules with a value, and with any value


class Worth(NamedTuple):
    """What rules are worth to a candidate. A rule's strength is −log(1 − confidence). Alone, a rule of kind k is worth
    weights[k] · strength ** powers[k]; the second strongest of a candidate counts `decay` times that, the third decay²
    times: rules that predict the same often have the same reason."""

    weights: tuple[float, ...]
    powers: tuple[float, ...]
    decay: float


class Steps:
    """A graph's distinct triples (n, 3) as steps from every entity."""

    def __init__(self, triples: NDArray[np.integer], entity_count: int, relation_count: int) -> None:
        self.entity_count, self.relation_count = entity_count, relation_count
        given = torch.from_numpy(np.ascontiguousarray(triples, dtype=np.int64).reshape(-1, 3))
        if native.serves():
            self.own = native.loaded().Steps(given, entity_count, relation_count)
        else:
            from transher.kernels.rules_reference import ReferenceSteps

            self.own = ReferenceSteps(given, entity_count, relation_count)

    def find_bodies(self, triples: NDArray[np.integer], *, least_support: int, fan_out: int, seed: int) -> Rows:
        """Bodies of closed rules that join head and tail of some of the triples (n, 3): rows of 3 ends, the triples'
        relation, and how many of them it joins. A body stands in the direction in which it is counted. Of an entity
        with more than `fan_out` steps some are looked at."""
        given = torch.from_numpy(np.ascontiguousarray(triples, dtype=np.int64).reshape(-1, 3))
        return _copied(self.own.find_bodies(native.threads(), given, least_support, fan_out, seed), 5)

    def count_bodies(
        self, bodies: Rows, *, least_support: int, least_confidence: float, origins: int, pairs: int, seed: int
    ) -> Rows:
        """The closed rules of bodies (n, 3), counted on the pairs from at most so many origins."""
        given = torch.from_numpy(np.ascontiguousarray(bodies, dtype=np.int32))
        found = self.own.count_bodies(
            native.threads(), given, least_support, least_confidence, CAUTION, origins, pairs, seed
        )
        return _copied(found, len(Column))

    def find_constants(self, first: int, last: int, *, least_support: int, least_confidence: float, most: int) -> Rows:
        """The rules with constants that conclude one of the ends first … last − 1; the best `most` of them."""
        found = self.own.find_constants(native.threads(), first, last, least_support, least_confidence, CAUTION, most)
        return _copied(found, len(Column))


class RuleIndex:
    """Rules in the form in which queries are answered. A known triple counts neither for a rule that speaks for it nor
    as a part of its body."""

    def __init__(self, steps: Steps, rules: Rows, worth: Worth) -> None:
        self.entity_count = steps.entity_count
        given = torch.from_numpy(np.ascontiguousarray(rules, dtype=np.int32))
        how = torch.tensor(worth.weights), torch.tensor(worth.powers), float(worth.decay)
        if native.serves():
            self._own = native.loaded().RuleIndex(steps.own, given, CAUTION, *how)
        else:
            from transher.kernels.rules_reference import ReferenceIndex, ReferenceSteps

            self._own = ReferenceIndex(cast(ReferenceSteps, steps.own), given, CAUTION, *how)

    def score(self, anchors: Tensor, relations: Tensor, tails: bool) -> Tensor:
        """Scores (B, entities) of B queries: what a candidate's strongest rules are worth, 0 where no rule predicts
        it."""
        scores = torch.empty(len(anchors), self.entity_count)
        self._own.score(native.threads(), anchors.contiguous(), relations.contiguous(), tails, scores)
        return scores

    def explain(self, triples: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        """Scores (n,) of triples (n, 3), and the strongest rules that predict each: numbers int64 and confidences
        (n, most), −1 and 0 where there are fewer."""
        scores, numbers = torch.empty(len(triples)), torch.empty(len(triples), most, dtype=torch.int64)
        confidences = torch.empty(len(triples), most)
        self._own.explain(native.threads(), triples.long().contiguous(), scores, numbers, confidences)
        return scores, numbers, confidences


def confidences(rules: Rows) -> NDArray[np.float64]:
    """support / (pairs + 5) of rules: (n,)."""
    found: NDArray[np.float64] = rules[:, Column.SUPPORT] / (rules[:, Column.PAIRS] + CAUTION)
    return found


def kinds(rules: Rows) -> NDArray[np.int64]:
    """The kind of each rule (n,), as `Worth` counts them."""
    constant = rules[:, Column.ANSWER] != NONE
    steps = (rules[:, BODY] != NONE).sum(axis=1)
    found: NDArray[np.int64] = np.where(constant, np.where(rules[:, Column.VALUE] == NONE, 4, 3), steps - 1)
    return found


def _copied(found: NativeRows, width: int) -> Rows:
    rows = torch.empty(found.count(), width, dtype=torch.int32)
    found.copy_to(rows)
    return rows.numpy()
