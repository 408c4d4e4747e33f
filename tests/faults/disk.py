"""A disk that fails at a given operation: what a kill, a full or a broken disk leaves behind, with no waiting."""

from __future__ import annotations

import builtins
import errno
import io
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, get_args
from unittest.mock import patch

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import close_all_sessions

# Killed before the operation; killed when half of a write is done; an operation that fails, after which others work.
Fault = Literal["kill", "half", "full", "broken"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
_CHANGES = ("mkdir", "remove", "rename", "replace", "rmdir", "unlink", "fsync", "truncate", "ftruncate")
_ERRORS = {"full": (errno.ENOSPC, "No space left on device"), "broken": (errno.EIO, "Input/output error")}


class Killed(BaseException):
    """The process is no more."""


class Disk:
    """Counts the operations that change what lies under `root`, each write to a file included. Number `at`, from 0, is
    where the fault is. After a kill none happens any more, not even those of blocks that clean up as they are left."""

    def __init__(self, root: Path, fault: Fault | None = None, at: int = 0) -> None:
        self.root, self.fault, self.at, self.operations = str(root), fault, at, 0
        self.commits = False  # whether a database was written to

    def holds(self, path: Any) -> bool:
        return isinstance(path, int) or (os.path.isabs(path) and str(os.fspath(path)).startswith(self.root))

    def change(self, path: Any, half: Callable[[], object] | None = None) -> None:
        """An operation on `path`, which is also a number where it is of an open file. half: does half of it."""
        if not self.holds(path):
            return
        number = self.operations
        self.operations += 1
        if self.fault is None or number < self.at:
            return
        if self.fault in ("kill", "half"):
            if number == self.at and self.fault == "half" and half is not None:
                half()
            raise Killed
        if number == self.at:
            if half is not None:
                half()
            raise OSError(*_ERRORS[self.fault], str(path))


class _Written:
    """A file whose writes are operations."""

    def __init__(self, disk: Disk, path: Any, file: Any) -> None:
        self._disk, self._path, self._file = disk, path, file

    def write(self, data: Any) -> Any:
        def half() -> None:
            whole = data if isinstance(data, str) else memoryview(data).cast("B")
            self._file.write(whole[: len(whole) // 2])
            self._file.flush()

        self._disk.change(self._path, half)
        return self._file.write(data)

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def disk(root: Path, fault: Fault | None = None, at: int = 0) -> Iterator[Disk]:
    """What runs inside writes to such a disk. SQLite's writes are its own: there, a commit is one operation."""
    shown = Disk(root, fault, at)

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def change(path: Any, *arguments: Any, **named: Any) -> Any:
            shown.change(named["dir_fd"] if named.get("dir_fd") is not None else path)
            return operation(path, *arguments, **named)

        return change

    def opened(operation: Callable[..., Any]) -> Callable[..., Any]:
        def open_(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            if not set(mode) & set("wax+") or not shown.holds(file) or isinstance(file, int):
                return operation(file, mode, *arguments, **named)
            shown.change(file)
            return _Written(shown, file, operation(file, mode, *arguments, **named))

        return open_

    def committed(_: Any) -> None:
        shown.commits = True
        try:
            shown.change(0)
        except OSError as error:  # as SQLite tells it
            raise OperationalError("COMMIT", None, sqlite3.OperationalError(error.strerror)) from error

    with ExitStack() as changes:
        for name in _CHANGES:
            changes.enter_context(patch.object(os, name, counted(getattr(os, name))))
        for module in (io, builtins):
            changes.enter_context(patch.object(module, "open", opened(module.open)))
        event.listen(Engine, "commit", committed)
        changes.callback(event.remove, Engine, "commit", committed)
        changes.callback(close_all_sessions)  # as the end of a process does
        yield shown


def operations(root: Path, work: Callable[[], object]) -> int:
    """How many operations a work takes that nothing disturbs."""
    with disk(root) as shown:
        work()
    return shown.operations
