"""Workers that are threads of one process: they exchange tensors of any device, and note which go by which channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import torch
from torch import Tensor

from transher.devices import Device
from transher.workers import Workers

_LATE = 900  # seconds: a worker that is this late will not come

Found = TypeVar("Found")


class _Channel:
    """Where all put something down, and each then takes what the others brought."""

    def __init__(self, count: int) -> None:
        self._table: list[Any] = [None] * count
        self._barrier = Barrier(count, timeout=_LATE)

    def brought(self, index: int, value: Any) -> list[Any]:
        self._table[index] = value
        self._barrier.wait()
        found = list(self._table)
        self._barrier.wait()
        return found

    def leave(self) -> None:
        self._barrier.abort()


class ThreadWorkers(Workers):
    """`step` and `ahead` have the devices of all tensors that went by the channel of the step, and by the one that is
    ahead of it."""

    def __init__(self, index: int, channels: tuple[_Channel, _Channel], count: int, device: torch.device) -> None:
        self.index, self.count, self.sent = index, count, 0
        self._own = device
        self._channels = channels
        self.step: set[torch.device] = set()
        self.ahead: set[torch.device] = set()

    def device(self, name: Device) -> torch.device:
        return self._own

    def swap(self, leaving: Tensor, sizes: Sequence[int], coming: Sequence[int], ahead: bool = False) -> Tensor:
        (self.ahead if ahead else self.step).add(leaving.device)
        brought = self._channels[ahead].brought(self.index, leaving.split(list(sizes)))
        came = [parts[self.index] for parts in brought]
        assert [len(part) for part in came] == list(coming)
        return torch.cat(came)

    def gather(self, values: Tensor) -> Tensor:
        return torch.stack(self._channels[0].brought(self.index, values))

    def total(self, values: Tensor) -> Tensor:
        self.step.add(values.device)
        return values.copy_(torch.stack(self._channels[0].brought(self.index, values.clone())).sum(0))

    def told(self, value: Any) -> Any:
        return self._channels[0].brought(self.index, value)[0]

    def meet(self) -> None:
        self._channels[0].brought(self.index, None)


def on_threads(count: int, device: torch.device, work: Callable[[ThreadWorkers], Found]) -> list[Found]:
    """What every worker comes to. If one fails, none waits for it."""
    channels = _Channel(count), _Channel(count)

    def working(index: int) -> Found:
        try:
            return work(ThreadWorkers(index, channels, count, device))
        except BaseException:
            for channel in channels:
                channel.leave()
            raise

    with ThreadPoolExecutor(count) as threads:
        return [future.result() for future in [threads.submit(working, index) for index in range(count)]]
