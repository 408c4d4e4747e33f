"""What whoever runs a server relies on: replaced runs, logs, proxies, clients that do not read, several processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from tests.serving.process import PATIENT, PATIENTLY, Server, httpx

from transher.errors import InputError
from transher.serving.api import RELOADING, create_app
from transher.serving.guard import TrustedProxies, host_name
from transher.serving.server import Settings, load_explorers

TOKEN = "a long secret"
STRICT = f"""
{PATIENTLY}
import socket
from transher.serving import connection, server
connection.UNREAD_SECONDS = 0.5
listening = server.listening
def with_small_buffers(settings):
    bound = listening(settings)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return bound
server.listening = with_small_buffers
"""
ASKED = {"head": "France", "relation": "borders"}


def talk(folder: Path, scene: Callable[[Any], Coroutine[Any, Any, None]], token: str | None = TOKEN) -> None:
    """Play a scene with a client of a server in this process."""
    app = create_app(load_explorers([folder]), token=token, reload=lambda: load_explorers([folder]))

    async def play() -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost/api", headers=headers) as client:
            await scene(client)

    asyncio.run(play())


async def scores(client: Any) -> list[float]:
    response = await client.get("runs/served/predict", params=ASKED)
    return [fact["score"] for fact in response.json()["answers"]]


def test_what_happens_to_a_folder_changes_nothing_until_it_is_read_anew(
    world_run: Path, pairre_run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "served"
    shutil.copytree(world_run, folder)

    async def scene(client: Any) -> None:
        before = await scores(client)
        weights = folder / "model.safetensors"
        os.truncate(weights, 1000)  # a map of the file would end the process here
        assert await scores(client) == before
        weights.write_bytes(os.urandom(weights.stat().st_size))
        assert await scores(client) == before
        refused = await client.post("reload")
        assert refused.status_code == 422
        assert "model.safetensors" in refused.json()["reason"]
        assert await scores(client) == before
        shutil.rmtree(folder)
        shutil.copytree(pairre_run, folder)
        assert await scores(client) == before
        assert (await client.post("reload")).json()["runs"] == ["served"]
        after = await scores(client)
        assert after
        assert after != before

    talk(folder, scene)


def test_a_folder_that_is_replaced_while_it_is_read_is_refused(
    world_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transher.serving.server.read_manifest", lambda _: {"another": "manifest"})
    with pytest.raises(InputError, match="replaced while it was read"):
        load_explorers([world_run])


def test_without_a_token_nobody_reloads(world_run: Path, tmp_path: Path) -> None:
    shutil.copytree(world_run, tmp_path / "served")

    async def scene(client: Any) -> None:
        assert (await client.post("reload")).status_code == 403
        ready = await client.get("ready")
        assert ready.json()["waiting"] == 0
        page = await client.get("docs")
        assert page.status_code == 200
        assert "//" not in page.text.replace("<!doctype", "")  # nothing from elsewhere

    talk(tmp_path / "served", scene, token=None)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("localhost", "localhost"),
        ("localhost:8085", "localhost"),
        ("[::1]:8085", "[::1]"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]evil.com", ""),
        ("[::1].evil.com:80", ""),
        ("localhost:80@evil.com", ""),
        ("localhost:port", ""),
        ("a@localhost", ""),
        ("", ""),
    ],
)
def test_a_host_is_a_name_and_perhaps_a_port(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", "10.0.0.1", "203.0.113.9"),  # nobody's word but a trusted proxy's counts
        ("127.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("127.0.0.1", "1.2.3.4, 198.51.100.7", "198.51.100.7"),  # what stands before is the client's own word
        ("127.0.0.1", "198.51.100.7, 10.1.2.3", "198.51.100.7"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("::ffff:10.1.2.3", "198.51.100.7", "198.51.100.7"),
    ],
)
def test_the_client_is_the_last_address_that_no_trusted_proxy_has(peer: str, forwarded: str, client: str) -> None:
    scope: dict[str, Any] = {"client": (peer, 1), "headers": [(b"x-forwarded-for", forwarded.encode())]}
    assert TrustedProxies(["127.0.0.1", "10.0.0.0/8"]).client(scope) == client


@pytest.fixture(scope="module")
def strict(world_run: Path) -> Iterator[Server]:
    """A server that logs, and soon gives up those who do not read, for whom the system keeps little."""
    served = Server(str(world_run), "--log", "json", settings=STRICT)
    yield served
    served.stop()


def sent(server: Server, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENT) as connected:
        connected.sendall(request)
        answer = b""
        while received := connected.recv(4096):
            answer += received
    return answer


def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(strict: Server) -> None:
    smuggled = b"0\r\n\r\nGET /api/runs HTTP/1.1\r\nhost: localhost\r\n\r\n"
    head = b"POST /api/runs/tiny/batch HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n" % len(smuggled)
    answer = sent(strict, head + b"transfer-encoding: chunked\r\n\r\n" + smuggled)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_host_with_something_behind_its_address_is_refused(strict: Server) -> None:
    answer = sent(strict, b"GET /api/health HTTP/1.1\r\nhost: [::1]evil.com\r\nconnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 421 ")


def test_those_who_never_read_keep_nobody_waiting_and_are_given_up(strict: Server) -> None:
    before, idle = strict.connections(), []
    for _ in range(40):  # more than the requests of one address that may be under way
        connected = socket.socket()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connected.connect(("127.0.0.1", strict.port))
        connected.sendall(b"GET /api/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n")
        idle.append(connected)
    try:
        end = time.monotonic() + 3 * PATIENT
        # Their answers are computed too, so that a question may be refused while that lasts; it is never stuck.
        while (answer := ask_patiently(strict)).status_code != 200:
            assert answer.status_code == 429
            assert time.monotonic() < end, "others wait for those who never read"
            time.sleep(0.05)
        # As the server sees it: the kernel may keep the end of a connection back behind what nobody reads.
        while strict.connections() > before:
            assert time.monotonic() < end, "a client that never reads keeps its connection"
            time.sleep(0.1)
    finally:
        for connected in idle:
            connected.close()


def logged(server: Server, path: str) -> list[dict[str, Any]]:
    """The lines of the log about requests whose path ends so."""
    lines = [json.loads(line) for line in server.messages().splitlines() if line.startswith("{") and line.endswith("}")]
    return [line for line in lines if line.get("path", "").endswith(path)]


def ask_patiently(server: Server) -> Any:
    """An answer. A client that a busy machine keeps from reading is given up by a strict server, and asks again."""
    while True:
        try:
            return httpx.get(f"{server.url}/api/runs/tiny/predict", params=ASKED, timeout=PATIENT)
        except httpx.TransportError:
            assert server.process.poll() is None, server.messages()


def test_every_request_is_a_line_of_json(strict: Server) -> None:
    httpx.get(f"{strict.url}/api/runs/tiny/entity", params={"name": "\x1b[31mred"}, timeout=PATIENT)
    strict.wait_until(lambda: bool(logged(strict, "/entity")))  # it is written after the answer has gone
    line = logged(strict, "/entity")[0]
    assert line["status"] == 404
    assert line["client"] == "127.0.0.1"
    assert line["method"] == "GET"
    assert line["milliseconds"] > 0
    assert "\x1b" not in strict.messages()


def test_processes_share_an_address_survive_a_kill_and_are_replaced_together(
    world_run: Path, pairre_run: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "served"
    shutil.copytree(world_run, folder)
    environment = {"TRANSHER_TOKEN": TOKEN, "TRANSHER_RUNS": str(folder), "TRANSHER_PROCESSES": "2"}
    served = Server(environment=environment)
    try:
        with httpx.Client(
            base_url=f"{served.url}/api", headers={"authorization": f"Bearer {TOKEN}"}, timeout=PATIENT
        ) as ask:
            before = ask.get("runs/served/predict", params=ASKED).json()["answers"]
            served.wait_until(lambda: "2 processes answer" in served.messages())  # one may have answered before
            victim = workers_of(served.process.pid)[0]
            os.kill(victim, signal.SIGKILL)
            answered_by_all(ask, lambda: ask.get("health").status_code == 200)
            served.wait_until(lambda: len(set(workers_of(served.process.pid)) - {victim}) == 2)
            shutil.rmtree(folder)
            shutil.copytree(pairre_run, folder)
            assert ask.get("runs/served/predict", params=ASKED).json()["answers"] == before
            assert ask.post("reload").status_code == 200
            after: list[Any] = []

            def is_replaced() -> bool:  # processes take over one by one
                after[:] = ask.get("runs/served/predict", params=ASKED).json()["answers"]
                return bool(after != before)

            served.wait_until(is_replaced)
            assert [fact["score"] for fact in after] != [fact["score"] for fact in before]
            shutil.rmtree(folder)
            assert ask.post("reload").status_code == 422
            served.wait_until(lambda: ask.get("runs/served/predict", params=ASKED).json()["answers"] == after)
            assert 'transher_requests_total{route="/api/reload",status="200"} 1' in ask.get("metrics").text
    finally:
        assert served.stop() == 0


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """That of two processes, which have already ended, and in front of them the lines to them."""
    processes = pytest.importorskip("transher.serving.processes")
    if not hasattr(os, "memfd_create"):
        pytest.skip("several processes need Linux")
    made = processes._Supervisor([], Settings(processes=2))
    made._work = processes.Shared("before")
    pairs = [socket.socketpair() for _ in range(2)]
    made.workers = [processes._Worker(subprocess.Popen(["true"]), own, row) for row, (own, _) in enumerate(pairs)]
    made.theirs = [theirs for _, theirs in pairs]
    monkeypatch.setattr(made, "_start", lambda _: [])
    monkeypatch.setattr(made, "_end", lambda _: None)
    yield made
    made._work.close()
    for theirs in made.theirs:
        theirs.close()


@pytest.mark.parametrize("reason", ["", "it cannot be read"])
def test_a_process_that_dies_while_the_runs_are_read_anew_ends_no_other(
    supervisor: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = supervisor.workers[0]

    def load() -> Any:
        asking.tell({"said": "what it does not hear any more"})  # so that the line is not only at its end: it is broken
        supervisor.theirs[0].close()
        if reason:
            raise InputError(reason)
        return type(supervisor._work)("now")

    monkeypatch.setattr(supervisor, "_load", load)
    supervisor._reload(asking)
    assert asking.messages() == []
    assert (asking in supervisor.workers) == bool(reason)
    assert supervisor._work.read(supervisor._work.descriptor) == ("before" if reason else "now")


def test_a_second_request_to_read_the_runs_anew_is_told_that_there_was_one(
    supervisor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_load", lambda: type(supervisor._work)("now"))
    supervisor._reload(supervisor.workers[0])
    told = [json.loads(line.recv(1000)) for line in supervisor.theirs]
    assert told == [{}, {"busy": RELOADING}]


@pytest.mark.parametrize("asked", [b"", b"reload\n"])
def test_a_process_hears_that_the_one_that_started_it_is_gone(asked: bytes) -> None:
    processes = pytest.importorskip("transher.serving.processes")
    own, theirs = socket.socketpair()
    own.sendall(asked)
    theirs.sendall(b"{}\n")
    theirs.close()  # with what it was asked unread
    replies: Queue[bytes] = Queue()
    processes._hear(own, replies)
    assert [replies.get(), replies.get()] == [b"{}\n", b""]
    own.close()


def answered_by_all(client: Any, asked: Callable[[], bool]) -> None:
    """A connection that a killed process held may break; the next is answered."""
    for attempt in range(20):
        try:
            assert asked()
            return
        except httpx.TransportError:
            assert attempt < 19


def workers_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children]
