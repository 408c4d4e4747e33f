"""Known facts by entity and by relation, without a pass over the triples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from transher.graph.encoding import triple_keys
from transher.graph.graph import Graph, Side
from transher.graph.known import KnownAnswers

Ids = NDArray[np.int32]
MOSTLY = 0.5


class FactGroup(NamedTuple):
    """What an entity is joined to by one relation, where `side` is the end at which the others stand."""

    relation: int
    side: Side
    others: Ids


class Facts:
    """The distinct triples of all splits, found from either end or by relation: some 30 bytes a triple."""

    def __init__(self, graph: Graph) -> None:
        size = len(graph.entities), len(graph.relations)
        keys = triple_keys(graph.all_triples, *size)
        triples = graph.all_triples[np.unique(keys, return_index=True)[1]]
        self.answers: dict[Side, KnownAnswers] = {
            "head": KnownAnswers(triples, *size, "head"),
            "tail": KnownAnswers(triples, *size, "tail"),
        }
        self.degree = np.bincount(triples[:, [0, 2]].ravel(), minlength=size[0]).astype(np.int64)
        self.count = np.bincount(triples[:, 1], minlength=size[1]).astype(np.int64)
        self._relation_count = size[1]
        # Which entities have which role, that is, stand at which end of which relation: (role, entity), distinct.
        roles = np.concatenate([triples[:, 1], triples[:, 1] + size[1]]).astype(np.int64)
        keys = np.unique(roles * size[0] + np.concatenate([triples[:, 0], triples[:, 2]]))
        self._roles, self._players = np.divmod(keys, max(size[0], 1))
        self._pairs = triples[np.argsort(triples[:, 1], kind="stable")][:, [0, 2]]
        self._starts = np.concatenate([[0], np.cumsum(self.count)])

    def of(self, entity: int) -> list[FactGroup]:
        """Its facts in groups, those in which it is the head first."""
        relations = np.arange(self._relation_count)
        anchors = np.full(self._relation_count, entity)
        groups: list[FactGroup] = []
        for side in ("tail", "head"):
            answers = self.answers[side]
            # All of an entity's answers lie side by side: one search for its first and last relation.
            starts, ends = answers.ranges(anchors, relations)
            groups += [
                FactGroup(int(relation), side, answers.answers[starts[relation] : ends[relation]])
                for relation in np.flatnonzero(ends > starts)
            ]
        return groups

    def lacking(self, members: Ids) -> Ids:
        """Entities that are not among `members`, though they share a role that is mostly played by those."""
        inside = np.zeros(len(self.degree), dtype=np.bool_)
        inside[members] = True
        played = np.bincount(self._roles, minlength=2 * self._relation_count)
        by_members = np.bincount(self._roles, weights=inside[self._players], minlength=2 * self._relation_count)
        telling = by_members > MOSTLY * np.maximum(played, 1)
        players = np.unique(self._players[telling[self._roles]])
        lacking: Ids = players[~inside[players]].astype(np.int32)
        return lacking

    def play(self, relation: int, side: Side, entities: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which of `entities` the relation has on a side: (n,)."""
        role = relation + (self._relation_count if side == "tail" else 0)
        first, end = np.searchsorted(self._roles, [role, role + 1])
        return np.isin(entities, self._players[first:end])

    def known(self, anchor: int, relation: int, side: Side) -> Ids:
        """The known answers to one query, ascending."""
        starts, ends = self.answers[side].ranges(np.array([anchor]), np.array([relation]))
        return self.answers[side].answers[int(starts[0]) : int(ends[0])]

    def holds(self, head: int, relation: int, tail: int) -> bool:
        return bool(np.isin(tail, self.known(head, relation, "tail")))

    def pairs(self, relation: int) -> Ids:
        """Heads and tails of a relation: (n, 2)."""
        return self._pairs[self._starts[relation] : self._starts[relation + 1]]
