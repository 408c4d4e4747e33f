"""Several processes that answer on one address and share the tables.

One process loads and checks the runs and answers nothing. What it loaded, it writes once into memory that has no name
on any disk; those that answer map it, so that a table is there once however many they are. A process that dies is
started again. On request the runs are read anew, and a new set of processes takes over from the old one, which answers
what it has begun.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import torch
from fastapi import HTTPException

from transher.errors import TransherError
from transher.runs.run import Run
from transher.serving.api import RELOADING, route_paths
from transher.serving.explorer import Explorer
from transher.serving.metrics import RequestCounters
from transher.serving.server import Settings, explore, listening, load_runs, make_server

_START_SECONDS = 600.0  # to make the indexes of a large graph
_STOP_SECONDS = 15.0
_AGAIN_SECONDS = 1.0  # before a process that died is started again
_ALIGNED = 64
_SET_UP = "from transher.serving.processes import answer; answer()"


class _Pickler(pickle.Pickler):
    """Tensors go as arrays, whose bytes pickle leaves out of the stream."""

    def reducer_override(self, value: Any) -> Any:
        return (torch.from_numpy, (value.numpy(),)) if isinstance(value, torch.Tensor) else NotImplemented


class Shared:
    """An object in memory that other processes map: its large arrays are there once for all of them."""

    def __init__(self, value: object) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self.descriptor = os.memfd_create("transher")
        with os.fdopen(os.dup(self.descriptor), "wb") as file:
            file.write(bytes(16))
            _Pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
            spans = []
            for buffer in buffers:
                file.seek(-file.tell() % _ALIGNED, os.SEEK_CUR)
                data = buffer.raw()
                spans.append((file.tell(), data.nbytes))
                file.write(data)
            listed = file.tell()
            file.write(json.dumps(spans).encode())
            end = file.tell()
            file.seek(0)
            file.write(listed.to_bytes(8, "little") + end.to_bytes(8, "little"))

    @staticmethod
    def read(descriptor: int) -> Any:
        """The object. Its pages are shared as long as nobody writes to them."""
        whole = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
        listed, end = (int.from_bytes(whole[place : place + 8], "little") for place in (0, 8))
        spans = json.loads(bytes(whole[listed:end]))
        buffers = [whole[start : start + length] for start, length in spans]
        return pickle.loads(whole[16:listed], buffers=buffers)

    def close(self) -> None:
        os.close(self.descriptor)


@dataclass(frozen=True)
class _Work:
    """All that a process needs in order to answer."""

    runs: Mapping[str, Run]
    settings: Settings
    rows: int  # of the table of counters


@dataclass
class _Worker:
    """A process that answers, and the line to it."""

    process: subprocess.Popen[bytes]
    line: socket.socket
    row: int
    ready: bool = False
    unread: bytes = b""

    def messages(self) -> list[str]:
        """What it has said since; nothing any more once it has ended."""
        with suppress(ConnectionError):  # it has ended before it heard what it was told
            self.unread += self.line.recv(4096)
        *whole, self.unread = self.unread.split(b"\n")
        return [message.decode() for message in whole]

    def tell(self, told: Mapping[str, str]) -> None:
        """Say something to it; if it has ended, nobody hears."""
        with suppress(ConnectionError):
            self.line.sendall(json.dumps(told).encode() + b"\n")


def serve_together(folders: Sequence[Path], settings: Settings) -> None:
    """Answer until a signal says stop."""
    _Supervisor(folders, settings).run()


@dataclass
class _Supervisor:
    folders: Sequence[Path]
    settings: Settings
    workers: list[_Worker] = field(default_factory=list)
    stopping: bool = False

    def run(self) -> None:
        self._wake, wakened = socket.socketpair()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        with listening(self.settings) as self._socket:
            self._socket.listen(2048)
            size = RequestCounters.size(route_paths())
            self._counters = os.memfd_create("transher-counters")
            os.ftruncate(self._counters, 8 * size * 2 * self.settings.processes)
            self._work = self._load()
            try:
                self.workers = self._start(0)
                print(f"{len(self.workers)} processes answer.", file=sys.stderr)
                self._watch(wakened)
            finally:
                self._end(self.workers)

    def _stop(self, *_: object) -> None:
        self.stopping = True
        self._wake.send(b".")

    def _load(self) -> Shared:
        return Shared(_Work(load_runs(self.folders), self.settings, 2 * self.settings.processes))

    def _start(self, first_row: int) -> list[_Worker]:
        """A whole set of processes that are ready. If one of them ends before, none is left."""
        started = [self._spawn(first_row + number) for number in range(self.settings.processes)]
        end = time.monotonic() + _START_SECONDS
        try:
            for worker in started:
                worker.line.settimeout(max(0.1, end - time.monotonic()))
                if "ready" not in worker.messages():
                    raise TransherError("a process of the server ended before it was ready; see above.")
                worker.ready = True
        except (TimeoutError, TransherError) as error:
            self._end(started)
            raise TransherError(str(error)) from None
        return started

    def _spawn(self, row: int) -> _Worker:
        own, theirs = socket.socketpair()
        passed = (self._work.descriptor, self._socket.fileno(), self._counters, theirs.fileno())
        command = [sys.executable, "-c", _SET_UP, *(str(number) for number in (*passed, row))]
        process = subprocess.Popen(command, pass_fds=passed)
        theirs.close()
        return _Worker(process, own, row)

    def _watch(self, wakened: socket.socket) -> None:
        while not self.stopping:
            with selectors.DefaultSelector() as lines:
                lines.register(wakened, selectors.EVENT_READ)
                for worker in self.workers:
                    lines.register(worker.line, selectors.EVENT_READ, worker)
                spoke = [key.data for key, _ in lines.select() if key.data is not None]
            for worker in spoke:
                if worker not in self.workers:  # of the set before
                    continue
                messages = worker.messages()
                if "reload" in messages:
                    self._reload(worker)
                elif not messages and worker.process.poll() is not None and not self.stopping:
                    self._replace(worker)

    def _replace(self, dead: _Worker) -> None:
        """Start a process in place of one that died. It is not waited for: the others answer meanwhile."""
        print(f"A process of the server ended ({dead.process.returncode}): it is started again.", file=sys.stderr)
        dead.line.close()
        time.sleep(_AGAIN_SECONDS)
        self.workers[self.workers.index(dead)] = self._spawn(dead.row)

    def _reload(self, asking: _Worker) -> None:
        """The runs as they are now, by a new set of processes, or a reason why not."""
        before, old = self._work, self.workers
        try:
            self._work = self._load()
            fresh = self._start(0 if old[0].row else self.settings.processes)
        except (TransherError, OSError) as error:
            if self._work is not before:
                self._work.close()
            self._work = before
            asking.tell({"error": str(error)})
            return
        self.workers = fresh
        for worker in old:  # one that has asked too in the meantime would wait for ever
            worker.tell({} if worker is asking else {"busy": RELOADING})
        before.close()
        threading.Thread(target=self._end, args=(old,), daemon=True).start()

    @staticmethod
    def _end(workers: Sequence[_Worker]) -> None:
        """Let them answer what they have begun."""
        for worker in workers:
            worker.process.terminate()
        end = time.monotonic() + _STOP_SECONDS
        for worker in workers:
            try:
                worker.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
            worker.line.close()


def answer() -> None:
    """The whole life of a process that answers."""
    shared, bound, counters, line, row = (int(number) for number in sys.argv[1:])
    work: _Work = Shared.read(shared)
    if work.settings.threads is not None:
        torch.set_num_threads(work.settings.threads)
    memory = np.frombuffer(mmap.mmap(counters, 0), np.float64).reshape(work.rows, -1)
    talking = socket.socket(fileno=line)
    replies = Queue[bytes]()

    def reload() -> Mapping[str, Explorer] | None:
        talking.sendall(b"reload\n")
        told = json.loads(replies.get() or b'{"error": "The server is stopping."}')
        if "busy" in told:
            raise HTTPException(409, told["busy"])
        if "error" in told:
            raise TransherError(told["error"])
        return None

    server = make_server(explore(work.runs), work.settings, reload, RequestCounters(route_paths(), memory, row))

    def hear() -> None:
        _hear(talking, replies)
        server.should_exit = True

    threading.Thread(target=hear, daemon=True).start()
    talking.sendall(b"ready\n")
    server.run(sockets=[socket.socket(fileno=bound)])


def _hear(line: socket.socket, replies: Queue[bytes]) -> None:
    """Pass on what the process says that started this one, and nothing at all once it is gone."""
    with suppress(ConnectionError):  # it is gone and has not heard what it was asked
        for message in line.makefile("rb"):
            replies.put(message)
    replies.put(b"")
