"""The workers of a training: processes that torchrun started, each with a part of the tables. One process alone is the
same thing with nobody to talk to.

All words to torch.distributed are here. gloo carries tensors of the CPU, NCCL those of GPUs: rows, gradients and
scores. Ids and counts, which say how much is to come, are on the CPU and go by gloo alone; so nothing but the step
speaks by NCCL, which does not allow for two exchanges at a time.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from transher import devices
from transher.errors import TransherError, UsageError
from transher.kernels import native

_STEP = timedelta(minutes=10)  # a worker that is this late has been lost
_QUESTION = timedelta(days=3650)  # until somebody asks something


class Workers:
    """`index` of `count`. Every worker calls the same methods in the same order. `sent` counts the bytes of tensors
    that went to other workers."""

    def __init__(self, index: int = 0, count: int = 1) -> None:
        self.index, self.count = index, count
        self.sent = 0
        # The ids of the next step travel on a thread of their own while the present one is computed.
        self._ahead = dist.new_group(timeout=_STEP, backend="gloo") if count > 1 else None
        self._waiting = dist.new_group(timeout=_QUESTION, backend="gloo") if count > 1 else None

    @property
    def first(self) -> bool:
        """Whether this is the worker that speaks for all."""
        return self.index == 0

    def device(self, name: devices.Device) -> torch.device:
        """What this worker computes on. All take the same kind of device, or rows could not travel: with `auto` GPUs,
        if each worker has one of its own."""
        own = devices.find_own(name, int(os.environ.get("LOCAL_RANK", "0")))
        if self.count == 1:
            return own
        able = own.type == "cuda" and dist.is_nccl_available()
        if bool(self.gather(torch.tensor([float(able)])).all()):
            return own
        if devices.named(name) == "cuda":
            raise UsageError("not every worker has a GPU and a torch with NCCL: take --device cpu for all.")
        return torch.device("cpu")

    def exchange(self, parts: Sequence[Tensor], received: Sequence[int], ahead: bool = False) -> list[Tensor]:
        """Part i goes to worker i; gives what came from each, of which `received` are the numbers of rows. `ahead`: by
        the channel that is for the next step."""
        if self.count == 1:
            return list(parts)
        # What stays here is not copied twice.
        leaving = [part[:0] if to == self.index else part for to, part in enumerate(parts)]
        coming = [0 if come == self.index else count for come, count in enumerate(received)]
        into = self.swap(torch.cat(leaving), list(map(len, leaving)), coming, ahead)
        return [parts[come] if come == self.index else part for come, part in enumerate(into.split(coming))]

    def swap(self, leaving: Tensor, sizes: Sequence[int], coming: Sequence[int], ahead: bool = False) -> Tensor:
        """Of `leaving` so many rows go to each worker, none to this one; gives what came from all, in their order."""
        if self.count == 1:
            return leaving
        into = leaving.new_empty(sum(coming), *leaving.shape[1:])
        dist.all_to_all_single(into, leaving, list(coming), list(sizes), self._ahead if ahead else None)
        self.sent += leaving.numel() * leaving.element_size()
        return into

    def gather(self, values: Tensor) -> Tensor:
        """values: (n,), of one length everywhere → (workers, n)."""
        if self.count == 1:
            return values[None]
        into = [torch.empty_like(values) for _ in range(self.count)]
        dist.all_gather(into, values)
        self.sent += values.numel() * values.element_size() * (self.count - 1)
        return torch.stack(into)

    def total(self, values: Tensor) -> Tensor:
        """The sum over all workers, in place. Exact where at most one of them has anything but zero."""
        if self.count > 1:
            dist.all_reduce(values)
            self.sent += values.numel() * values.element_size()
        return values

    def told(self, value: Any) -> Any:
        """What the first worker says."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self._waiting)
        return box[0]

    def close(self) -> None:
        """Let go of the groups: nothing can be exchanged any more."""
        self._ahead = self._waiting = None

    def meet(self) -> None:
        """Wait for all."""
        if self.count > 1:
            dist.barrier(group=self._waiting)

    def agree_on_kernels(self) -> None:
        """The same instructions everywhere: those of AVX-512 and AVX2 round differently, so that ranks would depend on
        which worker counted. Takes the widest that all have."""
        if self.count == 1:
            return
        mine = [native.backend(), *(native.module.backends() if native.module else ())]
        offers: list[list[str]] = [[] for _ in range(self.count)]
        dist.all_gather_object(offers, mine, group=self._waiting)
        chosen = _widest({offer[0] for offer in offers}, offers)
        if chosen == "torch":
            native.module = None
        elif native.module is not None and native.module.chosen() != chosen:
            native.module.choose(chosen)


_WIDEST_FIRST = ("avx512", "avx2", "portable", "torch")


def _widest(used: set[str], offers: Sequence[Sequence[str]]) -> str:
    """The widest back end that everybody has, and that is no wider than what anybody uses: it may have been chosen."""
    narrowest = max(_WIDEST_FIRST.index(name) for name in used)
    common = (name for name in _WIDEST_FIRST[narrowest:] if all(name in offer for offer in offers))
    return next(common, "torch")


ALONE = Workers()
_started: Workers | None = None


def launched() -> bool:
    """Whether torchrun started this process, as one of one or more."""
    return "TORCHELASTIC_RUN_ID" in os.environ and "WORLD_SIZE" in os.environ


def joined() -> Workers:
    """The workers that torchrun started, this process among them; alone where it started none."""
    global _started
    if not launched() or int(os.environ["WORLD_SIZE"]) == 1:
        return ALONE
    if _started is None:
        dist.init_process_group(_backends(), timeout=_STEP)
        _started = Workers(dist.get_rank(), dist.get_world_size())
        _started.agree_on_kernels()
        atexit.register(_leave, _started)
    return _started


def _leave(workers: Workers) -> None:
    """End the groups and their threads while Python still runs: one that ends later ends the process with an abort. A
    group lives as long as something holds it."""
    workers.close()
    dist.destroy_process_group()
    gc.collect()


def _backends() -> str:
    """What carries tensors, by the device that they are on."""
    nccl = torch.cuda.is_available() and dist.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if nccl else "cpu:gloo"


@contextmanager
def together() -> Iterator[Workers]:
    """As `joined`. If anything fails in the block, the process ends at once: the others must not wait for it, and
    neither must a thread that waits for them."""
    workers = joined()
    try:
        yield workers
    except (TransherError, SystemExit):
        raise
    except BaseException:
        if workers.count == 1:
            raise
        traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
