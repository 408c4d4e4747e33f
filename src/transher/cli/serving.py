"""The command that serves: serve."""

from __future__ import annotations

import os
from pathlib import Path

import click

from transher.cli.options import threads_option, use_threads


@click.command()
@click.argument(
    "run_folders",
    metavar="RUN...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    envvar="TRANSHER_RUNS",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="TRANSHER_HOST",
    help="Address; any but loopback needs a token.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8085,
    show_default=True,
    envvar="TRANSHER_PORT",
    help="Port to listen on.",
)
@click.option("--token", envvar="TRANSHER_TOKEN", help="Token that clients must send; better set as TRANSHER_TOKEN.")
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    envvar="TRANSHER_PROCESSES",
    help="Processes that answer; they share the tables.",
)
@click.option(
    "--log",
    type=click.Choice(["off", "text", "json"]),
    default="off",
    show_default=True,
    envvar="TRANSHER_LOG",
    help="A line per request on standard error; json for failures too.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    default=("127.0.0.1", "::1"),
    show_default=True,
    envvar="TRANSHER_TRUSTED_PROXY",
    help="Address or network of a proxy whose X-Forwarded-For counts; several times for several.",
)
@threads_option
def serve(
    run_folders: tuple[Path, ...],
    host: str,
    port: int,
    token: str | None,
    processes: int,
    log: str,
    trusted_proxies: tuple[str, ...],
    threads: int | None,
) -> None:
    """Serve a page to explore runs, and an HTTP API.

    Several runs are shown side by side. The API is under /api. Every option can be set in the environment:
    TRANSHER_HOST, TRANSHER_PORT, TRANSHER_TOKEN, TRANSHER_PROCESSES, TRANSHER_LOG, TRANSHER_TRUSTED_PROXY (with
    spaces between several), and the runs as TRANSHER_RUNS (with : between).
    """
    from transher.cli.display import note
    from transher.cli.launching import speaks
    from transher.serving.server import Settings
    from transher.serving.server import serve as serve_until_stopped

    if processes > 1 and threads is None:
        threads = max(1, (os.cpu_count() or 1) // processes)
    settings = Settings(host, port, token, log, trusted_proxies, processes, threads)  # type: ignore[arg-type]
    use_threads(threads)
    shown = f"[{host}]" if ":" in host else host
    if speaks():
        note(f"http://{shown}:{port}  (Ctrl-C stops)")
    serve_until_stopped(run_folders, settings)


COMMANDS = (serve,)
