"""Every long computation of the server stops once its time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.serving.process import httpx

from transher.answering.paths import path_rules
from transher.deadline import DeadlineError, deadline
from transher.serving import schemas as s
from transher.serving.api import create_app
from transher.serving.explorer import Explorer
from transher.serving.server import load_explorers
from transher.serving.workers import Workers


@pytest.fixture(scope="module")
def explorer(world_run: Path) -> Explorer:
    return load_explorers([world_run])["tiny"]


@pytest.mark.parametrize(
    "work",
    [
        lambda explorer: explorer.ask(s.Query(head="France", relation="borders")),
        lambda explorer: explorer.ask_all([s.Query(head="France", tail="Europe")] * 64),
        lambda explorer: explorer.explain("France", "borders", "Spain"),
        lambda explorer: path_rules(explorer.graph.known, *explorer.graph.train[0].tolist()),
        lambda explorer: explorer.missing("borders", 10),
        lambda explorer: explorer.predicted("France", 10),
        lambda explorer: explorer.similar("France", 10),
    ],
)
def test_it_stops_when_its_time_is_up(explorer: Explorer, work: Callable[[Explorer], object]) -> None:
    with deadline(0), pytest.raises(DeadlineError):
        work(explorer)
    assert work(explorer)


def test_a_request_whose_time_is_up_is_told_so_in_json(explorer: Explorer) -> None:
    crew = Workers(threads=1, seconds=1e-6)
    app = create_app({"tiny": explorer}, workers=crew)

    async def scene() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost/api") as client:
            triple = {"head": "France", "relation": "borders", "tail": "Spain"}
            batch = {"queries": [{"head": "France", "relation": "borders"}]}
            responses = [
                await client.get("runs/tiny/explain", params=triple),
                await client.get("runs/tiny/relation/missing", params={"name": "borders"}),
                await client.post("runs/tiny/batch", json=batch),
            ]
            async with asyncio.timeout(300):
                while crew.pending:
                    await asyncio.sleep(0.01)
            return responses

    for response in asyncio.run(scene()):
        assert response.status_code == 503
        assert "longer than" in response.json()["reason"]
        assert int(response.headers["retry-after"]) > 0
    assert crew.pending == 0
    crew.stop()
