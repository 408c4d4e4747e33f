"""A server in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")


PATIENT = 300.0  # seconds: far more than an answer takes on a machine that is busy with something else
# The server itself waits as long, but for the limits that a test is about.
PATIENTLY = f"""
from transher.serving import connection, guard, workers
connection.SECONDS = connection.UNREAD_SECONDS = guard._BODY_SECONDS = workers.SECONDS = {PATIENT}
"""


class Server:
    """A server in a process, and where it answers."""

    def __init__(
        self,
        *arguments: str,
        environment: dict[str, str] | None = None,
        settings: str = PATIENTLY,
        port: int | None = None,
    ) -> None:
        """`settings` are statements that run first: they make limits so large that no test meets them, or so small that
        it does. Without any, the limits are those that people have."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = port or int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._messages = tempfile.TemporaryFile("a+b")  # noqa: SIM115 (open until stop)
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"{settings}\nfrom transher.cli.main import main\nmain()",
                "serve",
                *arguments,
                "--port",
                str(self.port),
                "--threads",
                "1",
            ],
            env=os.environ | (environment or {}),
            stdout=subprocess.DEVNULL,
            stderr=self._messages,  # a file: nobody reads a pipe, and a full one would stop the server
        )
        deadline = time.monotonic() + 3 * PATIENT
        while True:
            try:
                httpx.get(f"{self.url}/api/health", timeout=2)
                return
            except httpx.TransportError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.process.kill()
                    messages = self.messages()
                    self.stop()
                    raise AssertionError(messages) from None
                time.sleep(0.1)

    def messages(self) -> str:
        """What it has written to standard error so far."""
        self._messages.seek(0)
        return self._messages.read().decode()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for what a living server does sooner or later."""
        while not condition():
            assert self.process.poll() is None, self.messages()
            time.sleep(0.1)

    def connections(self) -> int:
        """How many sockets the process holds: the one that listens, and one for each client."""
        folder = f"/proc/{self.process.pid}/fd"
        count = 0
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # closed since
                count += os.readlink(f"{folder}/{name}").startswith("socket:")
        return count

    def stop(self) -> int:
        """End it, unless it has ended; its exit code."""
        try:
            self.process.send_signal(signal.SIGTERM)
            return self.process.wait(PATIENT)
        finally:
            self._messages.close()
