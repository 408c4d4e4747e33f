"""Starting and stopping the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from transher.errors import UsageError
from transher.models.embeddings import Embeddings
from transher.runs.run import load

try:
    import uvicorn

    from transher.serving.api import create_app
    from transher.serving.connection import Connection
except ImportError as error:
    raise UsageError(f"serving needs more packages ({error.name}): pip install 'transher[serve]'") from error

from transher.serving.explorer import Explorer
from transher.serving.guard import is_loopback


def load_explorers(folders: Sequence[Path]) -> dict[str, Explorer]:
    """Runs by the names of their folders; a second of the same name gets a number."""
    explorers: dict[str, Explorer] = {}
    for folder in folders:
        name = folder.resolve().name
        key = name if name not in explorers else f"{name}-{len(explorers) + 1}"
        run = load(folder)
        if isinstance(run.scorer, Embeddings):
            run = replace(run, scorer=run.scorer.prepared())
        explorers[key] = Explorer(key, run)
    return explorers


def check_address(host: str, token: str | None) -> None:
    """An address that others can reach needs a token."""
    if not is_loopback(host) and not token:
        raise UsageError(
            f"{host} can be reached from other machines, so a token is needed: --token, or TRANSHER_TOKEN in the "
            "environment, which other users of this machine cannot read."
        )
    if token is not None and len(token) < 8:
        raise UsageError("a token shorter than 8 characters can be guessed.")


def serve(explorers: dict[str, Explorer], host: str, port: int, token: str | None) -> None:
    """Answer until a signal says stop; requests under way are answered first."""
    check_address(host, token)
    app = create_app(explorers, token=token, loopback_only=is_loopback(host))
    uvicorn.run(
        app, host=host, port=port, http=Connection, log_level="warning", server_header=False,
        timeout_keep_alive=15, timeout_graceful_shutdown=10, h11_max_incomplete_event_size=32 * 1024,
    )  # fmt: skip
