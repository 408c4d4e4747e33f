"""The map: entities in the plane, by the two directions in which their embeddings differ most, and their colours."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.runs.run import Run
from transher.serving.facts import Facts

Colour = Literal["type", "community", "degree"]
POINTS = 20_000  # drawn at most: the best connected half, and a sample of the rest
_FITTED = 20_000  # rows from which the directions are found
_GROUPS = 10
_ROUNDS = 15


class Colouring(NamedTuple):
    """A value for each drawn point; a position in `groups`, where there are such."""

    values: NDArray[np.float64]
    groups: list[str]


class Plane:
    """Principal components of the embeddings as the score sees them. Nothing is random from one start to the next."""

    def __init__(self, run: Run, facts: Facts) -> None:
        self._run, self._facts = run, facts
        count = run.scorer.entity_count
        generator = np.random.default_rng(0)
        fitted = np.sort(generator.permutation(count)[:_FITTED])
        with torch.no_grad():
            rows = run.scorer.rows(torch.from_numpy(fitted)).float()
            self._centre = rows.mean(0)
            rows = rows - self._centre
            values, vectors = torch.linalg.eigh(rows.T @ rows)
        self._axes = vectors[:, [-1, -2]] if vectors.shape[1] > 1 else vectors[:, [-1, -1]]
        self._axes = self._axes * torch.where(self._axes.sum(0) < 0, -1.0, 1.0)
        self.explained = float(values[-2:].sum() / values.sum().clamp_min(1e-12))
        self.ids = self._chosen(generator)
        self.points = self.place(self.ids)

    @property
    def sampled(self) -> bool:
        return len(self.ids) < self._run.scorer.entity_count

    @torch.no_grad()
    def place(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Where entities lie: (n, 2)."""
        placed: NDArray[np.float64] = (self._rows(ids) @ self._axes).double().numpy()
        return placed

    def colouring(self, colour: Colour) -> Colouring:
        match colour:
            case "degree":
                return Colouring(np.log10(np.maximum(self._facts.degree[self.ids], 1)), [])
            case "type":
                return self._types
            case "community":
                return self._communities

    @cached_property
    def _types(self) -> Colouring:
        """The graph's own types; where it has none, the role in which an entity occurs most, as "head of capital"."""
        graph = self._run.graph
        if graph.entity_types is not None:
            return _most_common(graph.entity_types[self.ids], list(graph.type_names))
        triples, relation_count = graph.all_triples, len(graph.relations)
        entities = np.concatenate([triples[:, 0], triples[:, 2]]).astype(np.int64)
        roles = np.concatenate([triples[:, 1], triples[:, 1] + relation_count]).astype(np.int64)
        pairs, counts = np.unique(entities * (2 * relation_count) + roles, return_counts=True)
        order = np.argsort(counts, kind="stable")
        role_of = np.full(len(graph.entities), -1)
        role_of[pairs[order] // (2 * relation_count)] = pairs[order] % (2 * relation_count)  # the last written wins
        labels = graph.relations.labels(range(relation_count))
        names = [f"head of {label}" for label in labels] + [f"tail of {label}" for label in labels]
        return _most_common(role_of[self.ids], names)

    @cached_property
    def _communities(self) -> Colouring:
        """k-means of the embeddings; each is called after its best connected entities."""
        rows = self._rows(self.ids)
        centres = rows[_spread(rows, min(_GROUPS, len(rows)))]
        nearest = torch.zeros(len(rows), dtype=torch.int64)
        for _ in range(_ROUNDS):
            nearest = torch.cdist(rows, centres).argmin(1)
            sums = torch.zeros_like(centres).index_add_(0, nearest, rows)
            centres = sums / torch.bincount(nearest, minlength=len(centres)).clamp_min(1)[:, None]
        values = nearest.numpy()
        names = []
        for group in range(len(centres)):
            members = self.ids[values == group]
            leading = members[np.argsort(-self._facts.degree[members], kind="stable")[:2]]
            names.append(", ".join(self._run.graph.entities.labels(leading)) or "nobody")
        return _most_common(values, names)

    @torch.no_grad()
    def _rows(self, ids: NDArray[np.integer[Any]]) -> Tensor:
        seen = self._run.scorer.rows(torch.from_numpy(np.asarray(ids, dtype=np.int64)))
        return seen.float() - self._centre

    def _chosen(self, generator: np.random.Generator) -> NDArray[np.int64]:
        count = self._run.scorer.entity_count
        if count <= POINTS:
            return np.arange(count)
        by_degree = np.argsort(-self._facts.degree, kind="stable")
        rest = generator.choice(by_degree[POINTS // 2 :], POINTS - POINTS // 2, replace=False)
        return np.sort(np.concatenate([by_degree[: POINTS // 2], rest]))


def _spread(rows: Tensor, count: int) -> list[int]:
    """Rows far from each other, for k-means to start from: each the farthest from those before it, outliers aside."""
    chosen = [int(rows.norm(dim=1).argmin())]
    distances = (rows - rows[chosen[0]]).norm(dim=1)
    while len(chosen) < count:
        chosen.append(int(distances.argsort()[int(0.95 * (len(rows) - 1))]))
        distances = torch.minimum(distances, (rows - rows[chosen[-1]]).norm(dim=1))
    return chosen


def _most_common(values: NDArray[np.integer[Any]], names: list[str]) -> Colouring:
    """The largest groups in order of size, and all the others as one."""
    present, counts = np.unique(values[values >= 0], return_counts=True)
    order = present[np.argsort(-counts, kind="stable")]
    shown = order[: _GROUPS if len(order) <= _GROUPS else _GROUPS - 1]
    position = np.full(max(len(names), 1) + 1, len(shown))
    position[shown] = np.arange(len(shown))
    groups = [names[i] for i in shown]
    coloured = position[np.where(values < 0, len(position) - 1, values)]
    if bool((coloured == len(shown)).any()):
        groups.append("others")
    return Colouring(coloured.astype(np.float64), groups)
