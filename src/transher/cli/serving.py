"""The command that serves: serve."""

from __future__ import annotations

from pathlib import Path

import click

from transher.cli.options import threads_option, use_threads
from transher.errors import UsageError


@click.command()
@click.argument("run_folders", metavar="RUN [RUN2]", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address; any but loopback needs a token.")
@click.option("--port", type=click.IntRange(1, 65535), default=8085, show_default=True)
@click.option("--token", envvar="TRANSHER_TOKEN", help="Token that clients must send; better set as TRANSHER_TOKEN.")
@threads_option
def serve(run_folders: tuple[Path, ...], host: str, port: int, token: str | None, threads: int | None) -> None:
    """Serve a page to explore one run, or two side by side, and an HTTP API under /api."""
    if len(run_folders) > 2:
        raise UsageError(f"give one run, or two to see side by side, and not {len(run_folders)}.")
    from transher.cli.display import note
    from transher.serving.server import check_address, load_explorers
    from transher.serving.server import serve as serve_until_stopped

    check_address(host, token)
    use_threads(threads)
    explorers = load_explorers(run_folders)
    shown = f"[{host}]" if ":" in host else host
    note(f"http://{shown}:{port}  (Ctrl-C stops)")
    serve_until_stopped(explorers, host, port, token)


COMMANDS = (serve,)
