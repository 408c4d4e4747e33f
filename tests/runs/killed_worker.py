"""The command line in a worker that kills itself at a chosen operation: `python killed_worker.py MOMENTS ARGUMENTS…`,
by torchrun.

MOMENTS is a JSON file with a list of (worker, operation, count). In attempt n of the training, that worker is killed at
the count-th time that it comes to the operation of moment n; attempts after the last moment run to the end. Beside the
file are left `killed-n`, the time of each kill, and `resumed-n`, when attempt n had new results, with the seconds that
its first worker had then computed, and those that it had waited for a core while others computed. The clock is the
system's, the same for all processes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import torch.distributed as dist

from transher import files
from transher.cli.main import main
from transher.runs import train
from transher.training import part_trainer
from transher.training.part_step import PartStep
from transher.workers import Workers

# What is patched: its owner, or a module that a worker imports late; its name; and whether the process is killed before
# it or after it.
_CALLS: dict[str, tuple[Any, str, bool]] = {
    "before the workers find each other": (dist, "init_process_group", True),
    "before ids, rows or gradients are exchanged": (Workers, "swap", True),
    "after ids, rows or gradients are exchanged": (Workers, "swap", False),
    "after a step": (PartStep, "__call__", False),
    "before a validation": (part_trainer, "rank_split", True),
    "after a validation": (part_trainer, "rank_split", False),
    "before a checkpoint": (part_trainer, "save_parts", True),
    "after a checkpoint": (part_trainer, "save_parts", False),
    "before a checkpoint is read": (part_trainer, "load_parts", True),
    "after all have written their parts": ("transher.training.distributed_checkpoint", "save", False),
    "before an old checkpoint is removed": (shutil, "rmtree", True),
    "before the run is concluded": (train, "conclude", True),
}
_REPLACED = {"before a part is in its place": "part-", "before the pointer is in its place": "checkpoint.json"}
_HALF = "in the middle of writing a part"
OPERATIONS = (*_CALLS, *_REPLACED, _HALF)


class Killer:
    """Kills this process the `count`-th time that it is told that the moment is there."""

    def __init__(self, place: Path, attempt: int, count: int) -> None:
        self.place, self.attempt, self.left = place, attempt, count

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            (self.place / f"killed-{self.attempt}").write_text(json.dumps(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)


def around(owner: Any, name: str, before: Callable[[], None] | None, after: Callable[[], None] | None) -> None:
    """Have functions called with each call of `owner.name`."""
    original = getattr(owner, name)

    def called(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            before()
        found = original(*arguments, **named)
        if after is not None:
            after()
        return found

    setattr(owner, name, called)


def arm(operation: str, killer: Killer) -> None:
    if operation in _CALLS:
        owner, name, first = _CALLS[operation]
        owner = import_module(owner) if isinstance(owner, str) else owner
        around(owner, name, killer if first else None, None if first else killer)
    elif operation in _REPLACED:
        replace, wanted = os.replace, _REPLACED[operation]

        def replaced(source: Path, target: Path) -> None:
            if Path(target).name.startswith(wanted):
                killer()
            replace(source, target)

        os.replace = replaced  # type: ignore[assignment]
    else:
        replacing = files.replacing

        @contextmanager
        def halved(path: Path) -> Iterator[BinaryIO]:
            with replacing(path) as file:
                if path.name.startswith("part-"):
                    file.write(b"\0" * 1000)
                    file.flush()
                    killer()
                    file.seek(0)
                yield file

        files.replacing = halved


def tell_results(place: Path, attempt: int) -> None:
    """Write when this attempt has its first results: a step, or else a training that is there to be concluded."""
    path = place / f"resumed-{attempt}"

    def tell() -> None:
        if not path.exists():
            told = {"time": time.monotonic(), "computed": time.process_time(), "waited": waited_for_a_core()}
            path.write_text(json.dumps(told))

    around(PartStep, "__call__", None, tell)
    around(train, "conclude", tell, None)


def waited_for_a_core() -> float:
    """Seconds that the main thread was ready to run and had no core; 0 where the system does not say."""
    told = Path("/proc/self/schedstat")
    return int(told.read_text().split()[1]) / 1e9 if told.is_file() else 0.0


if __name__ == "__main__":
    moments = Path(sys.argv[1])
    attempt, index = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
    planned = json.loads(moments.read_text())
    if index == 0:
        tell_results(moments.parent, attempt)
    if attempt < len(planned) and planned[attempt][0] == index:
        _, operation, count = planned[attempt]
        arm(operation, Killer(moments.parent, attempt, count))
    main(sys.argv[2:])
