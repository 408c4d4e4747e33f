"""A disk that fails at a given operation: what a kill, or a disk without space, leaves behind, with no waiting."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

_CHANGES = ("mkdir", "remove", "rename", "replace", "rmdir", "unlink", "fsync")


class Killed(BaseException):
    """The process is no more."""


class Disk:
    """Counts the operations that change what lies under `root`. From number `kill_at` on, from 0, none of them happens
    any more, not even those of blocks that clean up as they are left: as after a SIGKILL just before that operation.
    Number `full_at` fails for lack of space, and those after it work."""

    def __init__(self, root: Path, kill_at: int | None = None, full_at: int | None = None) -> None:
        self.root, self.kill_at, self.full_at, self.operations = str(root), kill_at, full_at, 0

    def change(self, path: Any) -> None:
        inside = not isinstance(path, int) and os.path.isabs(path) and str(path).startswith(self.root)
        if not (inside or isinstance(path, int)):  # a number is an open file or folder
            return
        number = self.operations
        self.operations += 1
        if self.kill_at is not None and number >= self.kill_at:
            raise Killed
        if number == self.full_at:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))


@contextmanager
def disk(root: Path, *, kill_at: int | None = None, full_at: int | None = None) -> Iterator[Disk]:
    """What runs inside writes to such a disk."""
    shown = Disk(root, kill_at, full_at)

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def change(path: Any, *arguments: Any, **named: Any) -> Any:
            shown.change(named["dir_fd"] if named.get("dir_fd") is not None else path)
            return operation(path, *arguments, **named)

        return change

    def opened(operation: Callable[..., Any]) -> Callable[..., Any]:
        def open_(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if set(mode) & set("wax+"):
                shown.change(file)
            return operation(file, mode, *arguments, **named)

        return open_

    changes = [patch.object(os, name, counted(getattr(os, name))) for name in _CHANGES]
    changes += [patch.object(module, "open", opened(module.open)) for module in (io, builtins)]
    try:
        for change in changes:
            change.start()
        yield shown
    finally:
        for change in reversed(changes):
            change.stop()


def operations(root: Path, work: Callable[[], object]) -> int:
    """How many operations a work takes that nothing disturbs."""
    with disk(root) as shown:
        work()
    return shown.operations
