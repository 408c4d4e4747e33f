"""Workers on this machine, by torch's own launcher, and what each of them shows: the first speaks for all."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from transher import devices
from transher.cli.progress import TrainingDisplay
from transher.errors import Interrupted
from transher.training.watcher import Watcher
from transher.workers import joined, launched

RESTARTS = 3


def speaks() -> bool:
    """Whether this process is the one that tells what happens: not a worker besides the first."""
    return not launched() or os.environ.get("RANK", "0") == "0"


@contextmanager
def shown_by_first() -> Iterator[Watcher]:
    """The display of a training, on one worker only."""
    if not speaks():
        yield Watcher()
        return
    with TrainingDisplay() as display:
        yield display


def begun(folder: Path) -> bool:
    """Whether torchrun started this process to train in a folder that has a training already: after a restart."""
    from transher.runs.folder import RECIPE_FILE

    return launched() and bool(joined().told((folder / RECIPE_FILE).is_file()))


def resume_with(workers: int, folder: Path, threads: int | None, as_json: bool) -> None:
    """Train what lies in a folder with so many workers on this machine. A worker that is lost is replaced, and the
    training continues from its last checkpoint."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # Otherwise a restart finds the addresses of dead workers: pytorch issue 135712.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    os.environ["OMP_NUM_THREADS"] = str(threads or max(1, (os.cpu_count() or 1) // workers))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=workers,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=RESTARTS,
        monitor_interval=0.1,
    )
    command = ["-m", "transher", "train", "--out", str(folder), "--resume", *(["--json"] if as_json else [])]
    if (device := devices.chosen()) is not None:
        command += ["--device", device]
    try:
        elastic_launch(config, sys.executable)(*command)
    except SignalException:
        raise Interrupted(
            f"stopped; the last checkpoint is in {folder}. Resume: transher train --out {folder} --resume"
        ) from None
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        click.echo(f"Error: a worker ended with exit code {failure.exitcode}; what it said is above.", err=True)
        raise SystemExit(failure.exitcode if 0 < failure.exitcode < 126 else 1) from None
