"""More than the server can do: it refuses and says why, and never fails."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.serving.process import PATIENT, PATIENTLY, Server, httpx

SOON_FULL = (
    f"{PATIENTLY}\n"
    "from transher.serving import admission, connection, guard\n"
    "admission.EACH, admission.TOGETHER = 3, 5\n"
    "connection.SECONDS = guard._BODY_SECONDS = 3000.0"  # what is under way stays so until the test ends it
)
SOON_TIRED = f"{PATIENTLY}\nconnection.SECONDS, guard._BODY_SECONDS = 1.0, 0.5"
HEAD = b"POST /api/runs/tiny/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def small(world_run: Path) -> Iterator[Server]:
    """A server that is soon full."""
    served = Server(str(world_run), settings=SOON_FULL)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def impatient(world_run: Path) -> Iterator[Server]:
    """A server that is soon tired of waiting."""
    served = Server(str(world_run), settings=SOON_TIRED)
    yield served
    served.stop()


def test_two_hundred_at_once_meet_no_error_but_refusals(server: Server) -> None:
    async def flood() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=f"{server.url}/api/runs/tiny", timeout=PATIENT, limits=limits) as client:
            query = {"head": "France", "relation": "borders"}
            return await asyncio.gather(*(client.get("predict", params=query) for _ in range(200)))

    responses = asyncio.run(flood())
    statuses = Counter(response.status_code for response in responses)
    assert set(statuses) <= {200, 429, 503}
    assert statuses[200] >= 32
    refused = [response for response in responses if response.status_code != 200]
    assert all(int(response.headers["retry-after"]) > 0 and response.json()["reason"] for response in refused)
    assert httpx.get(f"{server.url}/api/health", timeout=PATIENT).status_code == 200


def test_one_client_with_too_many_is_told_so_and_others_are_answered(small: Server) -> None:
    with ExitStack() as open_requests:
        for _ in range(3):
            open_requests.enter_context(_begun(small, "10.0.0.1"))
        refused = _ask(small, "10.0.0.1")
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert "your requests" in refused.json()["reason"]
        assert _ask(small, "10.0.0.2").status_code == 200
        assert httpx.get(f"{small.url}/api/health", headers=_from("10.0.0.1"), timeout=PATIENT).status_code == 200
    _wait_until_answered(small, "10.0.0.1")


def test_a_full_server_tells_everybody_so(small: Server) -> None:
    with ExitStack() as open_requests:
        for number in range(5):
            open_requests.enter_context(_begun(small, f"10.0.1.{number}"))
        refused = _ask(small, "10.0.2.1")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.json()["reason"]
        assert httpx.get(f"{small.url}/api/health", timeout=PATIENT).status_code == 200
    _wait_until_answered(small, "10.0.2.1")


@pytest.mark.parametrize("sent", [b"", b"GET /api/health HTTP/1.1\r\nhost: local"])
def test_a_head_that_does_not_come_to_its_end_is_given_up(impatient: Server, sent: bytes) -> None:
    answer, seconds = _drip(impatient, sent, b"")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b"}")
    assert seconds > 0.9


def test_a_byte_now_and_then_does_not_keep_a_connection(impatient: Server) -> None:
    answer, _ = _drip(impatient, b"GET /api/health HTTP/1.1\r\nx: ", b"a")
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_slow_body_is_given_up_and_its_connection_closed(impatient: Server) -> None:
    while b"body" not in (answer := _drip(impatient, HEAD + b"content-length: 100000\r\n\r\n", b" ")[0]):
        assert answer.startswith(b"HTTP/1.1 408 ")  # this busy machine took a second to send the head
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"body did not come" in answer


def test_a_body_that_is_not_read_does_not_keep_a_connection_either(impatient: Server) -> None:
    head = b"GET /api/health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"
    while (answer := _drip(impatient, head, b" ")[0]).startswith(b"HTTP/1.1 408 "):
        pass  # this busy machine took a second to send it
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_kept_connection_may_rest_between_requests(impatient: Server) -> None:
    statuses = [408]
    while 408 in statuses:  # this busy machine took a second to send a request
        ports, statuses = set(), []
        with httpx.Client(base_url=impatient.url, timeout=PATIENT) as client:
            for _ in range(2):
                response = client.get("/api/health")
                statuses.append(response.status_code)
                ports.add(response.extensions["network_stream"].get_extra_info("client_addr")[1])
                time.sleep(1.2)  # longer than the server waits for a request
    assert statuses == [200, 200]
    assert len(ports) == 1


def _from(address: str) -> dict[str, str]:
    """As a proxy on this machine says for whom it asks."""
    return {"x-forwarded-for": address}


def _ask(server: Server, address: str) -> httpx.Response:
    query = {"head": "France", "relation": "borders"}
    return httpx.get(f"{server.url}/api/runs/tiny/predict", params=query, headers=_from(address), timeout=PATIENT)


def _begun(server: Server, address: str) -> socket.socket:
    """A request that is under way, since its body has yet to come."""
    connected = socket.create_connection(("127.0.0.1", server.port))
    connected.sendall(
        HEAD + f"x-forwarded-for: {address}\r\nexpect: 100-continue\r\ncontent-length: 10\r\n\r\n".encode()
    )
    assert connected.recv(100).startswith(b"HTTP/1.1 100")  # the server waits for it
    return connected


def _wait_until_answered(server: Server, address: str) -> None:
    end = time.monotonic() + PATIENT
    while _ask(server, address).status_code != 200:
        assert time.monotonic() < end, "those who left are still counted"
        time.sleep(0.05)


def _drip(server: Server, first: bytes, then: bytes) -> tuple[bytes, float]:
    """What comes until the server closes the connection, and after how many seconds; `then` is sent all the while."""
    start = time.monotonic()
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port)) as connected:
        connected.sendall(first)
        connected.settimeout(0.1)
        while time.monotonic() - start < PATIENT:
            try:
                connected.sendall(then)
                received = connected.recv(4096)
            except TimeoutError:
                continue
            except ConnectionError:
                break
            if not received:
                break
            answer += received
    return answer, time.monotonic() - start
