"""Where entities lie on a map: a neighbour embedding (t-SNE) if openTSNE is installed, else two principal components.

Two directions hold a small share of the variance of hundreds, and lay apart things that are near upon each other.
t-SNE keeps near what is near, and says nothing about what is far. It takes a minute for 20,000 entities, so that it is
computed once and kept in the folder of a finished run.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from transher.errors import UsageError
from transher.files import read_safetensors, write_safetensors
from transher.graph.graph import Graph
from transher.models.components import PrincipalComponents
from transher.models.embeddings import Embeddings, embeddings_of
from transher.runs.run import Run

LAYOUT_FILE = "map.safetensors"
POINTS = 20_000  # at most: the best connected half, and a sample of the rest
_FEWEST = 20  # entities that have neighbourhoods
_DIMENSIONS = 50  # in which neighbours are looked for
_NEAREST = 5  # by which an entity that is not drawn is placed

Method = Literal["neighbours", "components"]


class Layout:
    """The entities that are drawn and where: the same for the same run, nothing is random."""

    def __init__(self, run: Run) -> None:
        embeddings = embeddings_of(run.scorer)
        if embeddings is None:
            raise UsageError("This run has no embeddings: there is no map to draw.")
        self.components = PrincipalComponents(embeddings)
        self.ids = drawn_entities(run.graph)
        kept = run.folder / LAYOUT_FILE if run.manifest is not None else None
        points = None if kept is None else _read(kept, self.ids)
        if points is None and find_spec("openTSNE") is not None and len(self.ids) >= _FEWEST:
            points = _neighbours(embeddings, self.ids)
            if kept is not None:
                _keep(kept, self.ids, points)
        self.method: Method = "components" if points is None else "neighbours"
        self.points: NDArray[np.float64] = self.components.place(self.ids) if points is None else points  # (n, 2)

    @property
    def explained(self) -> float | None:
        """The share of the variance that the two axes hold; None where they are no directions."""
        return float(self.components.shares.sum()) if self.method == "components" else None

    @torch.no_grad()
    def place(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Where entities lie, drawn or not: (n, 2). What is not drawn lies amidst its nearest that are."""
        if self.method == "components":
            return self.components.place(ids)
        drawn = torch.nn.functional.normalize(self.components.rows(self.ids), dim=1)
        asked = torch.nn.functional.normalize(self.components.rows(ids), dim=1)
        nearest = (asked @ drawn.T).topk(min(_NEAREST, len(self.ids)), dim=1).indices.numpy()
        placed = self.points[nearest].mean(1)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where((self.ids[places] == ids)[:, None], self.points[places], placed)


def drawn_entities(graph: Graph) -> NDArray[np.int64]:
    """All entities of a graph that is not too large; else the best connected, and a sample of the rest. Sorted."""
    count = len(graph.entities)
    if count <= POINTS:
        return np.arange(count)
    by_degree = np.argsort(-graph.known.degrees, kind="stable")
    rest = np.random.default_rng(0).choice(by_degree[POINTS // 2 :], POINTS - POINTS // 2, replace=False)
    return np.sort(np.concatenate([by_degree[: POINTS // 2], rest]))


@torch.no_grad()
def _neighbours(embeddings: Embeddings, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    from openTSNE import TSNE

    rows = embeddings.rows(torch.from_numpy(ids)).float()
    rows = torch.nn.functional.normalize(rows - rows.mean(0), dim=1)
    if rows.shape[1] > _DIMENSIONS:
        _, vectors = torch.linalg.eigh((rows.T @ rows).double())
        rows = rows @ vectors[:, -_DIMENSIONS:].float()
    perplexity = min(30.0, (len(ids) - 1) / 3)
    laid_out: Any = TSNE(perplexity=perplexity, random_state=0, n_jobs=torch.get_num_threads()).fit(rows.numpy())
    return np.asarray(laid_out, dtype=np.float64)


def _keep(path: Path, ids: NDArray[np.int64], points: NDArray[np.float64]) -> None:
    """A folder that cannot be written has its map computed each time."""
    try:
        write_safetensors(path, {"ids": ids.astype(np.int64), "points": points.astype(np.float32)}, {"method": "t-SNE"})
    except OSError:
        return


def _read(path: Path, ids: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """The points that were kept, unless the file is damaged or of other entities."""
    if not path.is_file():
        return None
    try:
        arrays, _ = read_safetensors(path)
        return arrays["points"].astype(np.float64) if np.array_equal(arrays["ids"], ids) else None
    except (ValueError, KeyError, OSError):
        return None
