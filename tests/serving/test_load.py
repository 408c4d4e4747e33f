"""Two hundred requests at once: some may be refused, none may fail."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.serving.process import Server, httpx


def test_two_hundred_at_once_meet_no_error_but_refusals(server: Server) -> None:
    async def flood() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=f"{server.url}/api/runs/tiny", timeout=60, limits=limits) as client:
            query = {"head": "France", "relation": "borders"}
            return await asyncio.gather(*(client.get("predict", params=query) for _ in range(200)))

    responses = asyncio.run(flood())
    statuses = Counter(response.status_code for response in responses)
    assert set(statuses) <= {200, 503}
    assert statuses[200] >= 64
    refused = [response for response in responses if response.status_code == 503]
    assert all(int(response.headers["retry-after"]) > 0 and response.json()["reason"] for response in refused)
    assert httpx.get(f"{server.url}/api/health").status_code == 200
