"""The two directions in which the embeddings of entities differ most, to draw a map by."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transher.models.embeddings import Embeddings

_FITTED = 20_000  # rows from which the directions are found


class PrincipalComponents:
    """The first two, of the rows as the score sees them. The same for the same weights: nothing is random."""

    @torch.no_grad()
    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        fitted = np.sort(np.random.default_rng(0).permutation(embeddings.entity_count)[:_FITTED])
        rows = embeddings.rows(torch.from_numpy(fitted)).double()
        self._centre = rows.mean(0).float()
        rows = rows - rows.mean(0)
        values, vectors = torch.linalg.eigh(rows.T @ rows)
        two = [-1, -2] if len(values) > 1 else [-1, -1]
        axes = vectors[:, two].float()
        self._axes = axes * torch.where(axes.sum(0) < 0, -1.0, 1.0)
        shares = values[two] / values.clamp_min(0).sum().clamp_min(1e-30)
        self.shares: NDArray[np.float64] = shares.numpy()  # (2,), of the variance

    def rows(self, ids: NDArray[np.integer[Any]]) -> Tensor:
        """Centred rows (n, d) of entities."""
        return self._embeddings.rows(torch.from_numpy(np.asarray(ids, dtype=np.int64))).float() - self._centre

    @torch.no_grad()
    def place(self, ids: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Where entities lie: (n, 2)."""
        placed: NDArray[np.float64] = (self.rows(ids) @ self._axes).double().numpy()
        return placed
