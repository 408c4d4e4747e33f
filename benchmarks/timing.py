"""Best of several, taken in turns, so that noise from elsewhere hits all sides alike."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import psutil
import torch

from benchmarks.settings import Settings, say

SLOW = 2.0  # seconds; a call that takes longer is made twice only, once to warm up
BURST = 0.5  # seconds that a faster side has in each round


def in_turns(
    sides: dict[str, Callable[[], Any]],
    settings: Settings,
    seconds: float,
    rounds: int = 5,
    compiled: Sequence[str] = (),
    keep: Callable[[dict[str, Any]], Any] = lambda result: None,
) -> dict[str, Any]:
    """Seconds per call of each side: best, median and how many calls.

    The first call of each warms up, and counts only where it is too slow for another; never for `compiled` sides, whose
    first call compiles. The fast sides have a turn after every call of a slow one, then `rounds` among themselves. What
    does not fit into the time is left out. `keep` sees the result so far, in case that somebody ends the process."""
    end = time.monotonic() + min(seconds, settings.left)
    turns = _Turns(sides, compiled)
    for name in sides:
        if time.monotonic() > end:
            turns.failures[name] = "no time left"
            continue
        turns.warm_up(name)
        if turns.is_slow(name) and time.monotonic() + turns.first[name] < end:
            turns.take(name)
        for fast in [name] if not turns.is_slow(name) else turns.fast():
            turns.take(fast)
        keep(turns.result())
    for _ in range(rounds):
        for name in turns.fast():
            if time.monotonic() < end:
                turns.take(name)
    result = turns.result()
    for name, side in result.items():
        say(f"{name}: {side['failed'] if 'failed' in side else _summary(side)}")
    keep(result)
    return result


class _Turns:
    """The calls of each side so far."""

    def __init__(self, sides: dict[str, Callable[[], Any]], compiled: Sequence[str]) -> None:
        self.sides, self.compiled = sides, compiled
        self.first: dict[str, float] = {}
        self.times: dict[str, list[float]] = {name: [] for name in sides}
        self.failures: dict[str, str] = {}

    def warm_up(self, name: str) -> None:
        try:
            self.first[name] = _seconds(self.sides[name])
        except (MemoryError, RuntimeError, ImportError) as error:
            self.failures[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        else:
            say(f"{name}: first call {_show(self.first[name])}")

    def is_slow(self, name: str) -> bool:
        expected = min(self.times[name], default=0.0 if name in self.compiled else self.first.get(name, 0.0))
        return name in self.first and expected > SLOW

    def fast(self) -> list[str]:
        return [name for name in self.first if not self.is_slow(name)]

    def take(self, name: str) -> None:
        """One call, or as many as fit into a burst."""
        if name not in self.first:
            return
        gc.collect()
        stop = time.monotonic() + BURST
        self.times[name].append(_seconds(self.sides[name]))
        while time.monotonic() < stop:
            self.times[name].append(_seconds(self.sides[name]))

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in self.sides:
            taken = self.times[name] or ([self.first[name]] if name in self.first and name not in self.compiled else [])
            found[name] = (
                {"best": min(taken), "median": median(taken), "calls": len(taken)}
                if taken
                else {"failed": self.failures.get(name, "no time left")}
            )
        return found


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _show(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"


def _summary(side: dict[str, Any]) -> str:
    return f"best {_show(side['best'])}, median {_show(side['median'])} of {side['calls']}"


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


class DeviceMemory:
    """As PeakMemory, of the tensors on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.before, self.most = device, 0, 0

    def __enter__(self) -> DeviceMemory:
        self.before = self.most = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        return self

    def __exit__(self, *error: object) -> None:
        self.most = torch.cuda.max_memory_allocated(self.device)

    @property
    def above(self) -> int:
        return self.most - self.before
