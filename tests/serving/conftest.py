"""A tiny run of the world graph, served by a process of its own on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serving.process import PATIENT, Server, httpx


def _train(folder: Path, model: str) -> Path:
    """Some steps of training: enough for answers, not for good ones."""
    from transher import load_graph, train
    from transher.training.defaults import default_recipe

    graph = load_graph("world")
    settings = ("model.k=16", "training.steps=50", "training.batch=256", "training.negatives=16")
    train(graph, folder, recipe=default_recipe(graph).with_settings([f"model.name={model}", *settings]))
    return folder


@pytest.fixture(scope="session")
def world_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _train(tmp_path_factory.mktemp("served") / "tiny", "transher")


@pytest.fixture(scope="session")
def pairre_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _train(tmp_path_factory.mktemp("served") / "other", "pairre")


@pytest.fixture(scope="session")
def server(world_run: Path, pairre_run: Path) -> Iterator[Server]:
    """Two runs of one graph, side by side."""
    served = Server(str(world_run), str(pairre_run))
    yield served
    served.stop()


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.url}/api", timeout=PATIENT) as session:
        yield session
