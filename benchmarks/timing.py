"""Best of several, taken in turns, so that noise from elsewhere hits all sides alike."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import psutil

from benchmarks.settings import Settings, say

SLOW = 3.0  # a call that takes longer is made twice only
BURST = 0.5  # seconds that a faster side has in each round


def in_turns(
    sides: dict[str, Callable[[], Any]], settings: Settings, seconds: float, rounds: int = 5
) -> dict[str, Any]:
    """Seconds per call of each side: best, median and how many calls. The first call of each warms up and counts only
    where there was no time for another."""
    end = time.monotonic() + min(seconds, settings.left)
    first, times = {}, {name: [] for name in sides}
    failures: dict[str, str] = {}
    for name, call in sides.items():
        if time.monotonic() + sum(first.values()) / max(1, len(first)) > end and first:
            failures[name] = "no time left"
            continue
        try:
            first[name] = _seconds(call)
        except (MemoryError, RuntimeError, ImportError) as error:
            failures[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        else:
            say(f"{name}: first call {_show(first[name])}")
    for number in range(rounds):
        for name, call in sides.items():
            if name not in first or (first[name] > SLOW and times[name]) or time.monotonic() + first[name] > end:
                continue
            gc.collect()
            stop = time.monotonic() + BURST
            calls = 0
            while calls == 0 or (time.monotonic() < stop and calls < 50):
                times[name].append(_seconds(call))
                calls += 1
            if times[name][-1] < first[name] / 2:  # the first call compiled, or met fresh memory
                first[name] = times[name][-1]
        if number and time.monotonic() > end:
            break
    results: dict[str, Any] = {}
    for name in sides:
        taken = times[name] or ([first[name]] if name in first else [])
        if not taken:
            results[name] = {"failed": failures.get(name, "no time left")}
            say(f"{name}: {results[name]['failed']}")
            continue
        results[name] = {"best": min(taken), "median": median(taken), "calls": len(taken)}
        say(f"{name}: best {_show(min(taken))}, median {_show(median(taken))} of {len(taken)}")
    return results


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _show(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


class PeakMemory:
    """The most memory that the process held inside the block, above what it held before it, in bytes."""

    def __enter__(self) -> PeakMemory:
        self._process = psutil.Process()
        self.before = self.most = self._process.memory_info().rss
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self.most = max(self.most, self._process.memory_info().rss)

    def __exit__(self, *error: object) -> None:
        self.most = max(self.most, self._process.memory_info().rss)
        self._ended.set()
        self._watcher.join()

    @property
    def above(self) -> int:
        return self.most - self.before
