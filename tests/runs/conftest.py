"""A short training that tests of runs share."""

from __future__ import annotations

from pathlib import Path

import pytest

import transher
from transher.graph.graph import Graph
from transher.training.recipe import Recipe

QUICK = Recipe().with_settings(
    [
        "model.k=16",
        "training.steps=200",
        "training.batch=32",
        "training.negatives=16",
        "training.lr=0.02",
        "validation.every=50",
    ]
)


@pytest.fixture(scope="session")
def run(ring: Graph, tmp_path_factory: pytest.TempPathFactory) -> transher.Run:
    return transher.train(ring, tmp_path_factory.mktemp("runs") / "ring", recipe=QUICK)


@pytest.fixture
def copy(run: transher.Run, tmp_path: Path) -> Path:
    return run.save(tmp_path / "copy").folder
