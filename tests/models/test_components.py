from __future__ import annotations

import numpy as np
import torch

from transher.models.components import PrincipalComponents
from transher.models.distmult import DistMult
from transher.models.embeddings import Embeddings


def test_principal_components_find_the_directions_of_most_variance() -> None:
    random = np.random.default_rng(0)
    rows = (random.normal(size=(500, 4)) * [1, 10, 0.1, 3] + 7).astype(np.float32)
    components = PrincipalComponents(Embeddings(DistMult(4, 1.0), torch.from_numpy(rows), torch.zeros(1, 4)))
    points = components.place(np.arange(500))
    assert abs(np.corrcoef(points[:, 0], rows[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(points[:, 1], rows[:, 3])[0, 1]) > 0.99
    assert 0.8 < components.shares[0] < components.shares.sum() < 1
    assert np.abs(points.mean(0)).max() < 1e-3
