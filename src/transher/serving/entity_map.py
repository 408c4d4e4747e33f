"""The map: entities in the plane, where `transher.runs.layout` has them, and their colours."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.graph.groups import Groups, entity_groups
from transher.runs.layout import Layout
from transher.runs.run import Run

Colour = Literal["type", "community", "degree"]
_GROUPS = 10
_ROUNDS = 15


class Colouring(NamedTuple):
    """A value for each drawn point; a position in `groups`, where there are such."""

    values: NDArray[np.float64]
    groups: list[str]


class EntityMap:
    """Which entities are drawn, where, and in which colours. The same for the same run: nothing is random."""

    def __init__(self, run: Run) -> None:
        self._graph, self._layout = run.graph, Layout(run)
        self.ids, self.points = self._layout.ids, self._layout.points
        self.method, self.explained = self._layout.method, self._layout.explained
        self.sampled = len(self.ids) < len(run.graph.entities)

    def place(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Where entities lie: (n, 2)."""
        return self._layout.place(ids)

    def colouring(self, colour: Colour) -> Colouring:
        match colour:
            case "degree":
                return Colouring(np.log10(np.maximum(self._graph.known.degrees[self.ids], 1)), [])
            case "type":
                return self._types
            case "community":
                return self._communities

    @cached_property
    def _types(self) -> Colouring:
        groups = entity_groups(self._graph)
        return _coloured(groups._replace(group_of=groups.group_of[self.ids]))

    @cached_property
    @torch.no_grad()
    def _communities(self) -> Colouring:
        """k-means of the embeddings; each is called after its best connected entities."""
        rows = self._layout.components.rows(self.ids)
        centres = rows[_spread(rows, min(_GROUPS, len(rows)))]
        nearest = torch.zeros(len(rows), dtype=torch.int64)
        for _ in range(_ROUNDS):
            nearest = torch.cdist(rows, centres).argmin(1)
            sums = torch.zeros_like(centres).index_add_(0, nearest, rows)
            centres = sums / torch.bincount(nearest, minlength=len(centres)).clamp_min(1)[:, None]
        names = []
        for group in range(len(centres)):
            members = self.ids[nearest.numpy() == group]
            leading = members[np.argsort(-self._graph.known.degrees[members], kind="stable")[:2]]
            names.append(", ".join(self._graph.entities.labels(leading)))
        return _coloured(Groups(nearest.numpy(), names, "community"))


def _spread(rows: Tensor, count: int) -> list[int]:
    """Rows far from each other, for k-means to start from: each the farthest from those before it, outliers aside."""
    chosen = [int(rows.norm(dim=1).argmin())]
    distances = (rows - rows[chosen[0]]).norm(dim=1)
    while len(chosen) < count:
        chosen.append(int(distances.argsort()[int(0.95 * (len(rows) - 1))]))
        distances = torch.minimum(distances, (rows - rows[chosen[-1]]).norm(dim=1))
    return chosen


def _coloured(groups: Groups) -> Colouring:
    """The largest groups in order of size, and all the others as one."""
    many = len(np.unique(groups.group_of[groups.group_of >= 0])) > _GROUPS
    shown = groups.largest(_GROUPS - many)
    values = np.where(shown.group_of < 0, len(shown.names), shown.group_of)
    others = ["others"] if bool((shown.group_of < 0).any()) else []
    return Colouring(values.astype(np.float64), shown.names + others)
