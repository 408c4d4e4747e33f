"""Starting and stopping the server."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transher.errors import InputError, UsageError
from transher.models.embeddings import Embeddings
from transher.runs.manifest import read_manifest
from transher.runs.run import Run, load

try:
    import uvicorn

    from transher.serving.api import Reload, create_app, route_paths
    from transher.serving.connection import Connection
except ImportError as error:
    raise UsageError(f"serving needs more packages ({error.name}): pip install 'transher[serve]'") from error

from transher.serving.explorer import Explorer
from transher.serving.guard import TrustedProxies, is_loopback
from transher.serving.logs import Log, start_logging
from transher.serving.metrics import RequestCounters


@dataclass(frozen=True)
class Settings:
    """How a server listens and what it tells."""

    host: str = "127.0.0.1"
    port: int = 8085
    token: str | None = None
    log: Log = "off"
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")
    processes: int = 1
    threads: int | None = None  # of each process; all cores together unless given

    def __post_init__(self) -> None:
        """An address that others can reach needs a token."""
        if not is_loopback(self.host) and not self.token:
            raise UsageError(
                f"{self.host} can be reached from other machines, so a token is needed: --token, or TRANSHER_TOKEN in "
                "the environment, which other users of this machine cannot read."
            )
        if self.token is not None and len(self.token) < 8:
            raise UsageError("a token shorter than 8 characters can be guessed.")
        TrustedProxies(self.trusted_proxies)  # tells what is wrong with them
        if self.processes > 1 and not hasattr(os, "memfd_create"):
            raise UsageError(
                "several processes share their tables in a way that only Linux has: leave out --processes."
            )


def load_runs(folders: Sequence[Path]) -> dict[str, Run]:
    """Runs by the names of their folders; a second of the same name gets a number. All that is answered from is in
    memory: what happens to a folder later changes nothing."""
    runs: dict[str, Run] = {}
    for folder in folders:
        name = folder.resolve().name
        key = name if name not in runs else f"{name}-{len(runs) + 1}"
        runs[key] = _snapshot(folder)
    return runs


def _snapshot(folder: Path) -> Run:
    """A run of one moment. A folder that is replaced while it is read would be a mixture of two."""
    run = load(folder)
    run = replace(run, _judge=run.judge)
    if read_manifest(folder) != run.manifest:
        raise InputError("was replaced while it was read.", file=folder, remedy="Try again once it is whole.")
    if isinstance(run.scorer, Embeddings):
        run = replace(run, scorer=run.scorer.prepared())
    return run


def explore(runs: Mapping[str, Run]) -> dict[str, Explorer]:
    return {key: Explorer(key, run) for key, run in runs.items()}


def load_explorers(folders: Sequence[Path]) -> dict[str, Explorer]:
    return explore(load_runs(folders))


def serve(folders: Sequence[Path], settings: Settings) -> None:
    """Answer until a signal says stop; requests under way are answered first."""
    if settings.processes > 1:
        from transher.serving.processes import serve_together

        serve_together(folders, settings)
        return
    with listening(settings) as bound:
        make_server(load_explorers(folders), settings, lambda: load_explorers(folders)).run(sockets=[bound])


def listening(settings: Settings) -> socket.socket:
    """A socket on the address of the settings, before anything large is read."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise UsageError(f"cannot listen on {settings.host}, port {settings.port}: {error.strerror}.") from None
    return bound


def make_server(
    explorers: Mapping[str, Explorer], settings: Settings, reload: Reload, counters: RequestCounters | None = None
) -> uvicorn.Server:
    Connection.trusted = TrustedProxies(settings.trusted_proxies)
    start_logging(settings.log)
    app = create_app(
        explorers,
        token=settings.token,
        loopback_only=is_loopback(settings.host),
        trusted=Connection.trusted,
        counters=counters or RequestCounters(route_paths()),
        reload=reload,
    )
    return uvicorn.Server(
        uvicorn.Config(
            app, http=Connection, log_config=None, access_log=False,
            proxy_headers=False, server_header=False, timeout_keep_alive=15, timeout_graceful_shutdown=10,
            h11_max_incomplete_event_size=32 * 1024, ws="none",
        )
    )  # fmt: skip
