"""Where tensors lie and are computed with: the CPU, an NVIDIA or AMD GPU ("cuda" for both), or Apple's ("mps").

A recipe names a device; whoever starts the program may choose another for all that it does, since a run moves freely
between devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from transher.errors import UsageError

Device = Literal["auto", "cpu", "cuda", "mps"]
DEVICES: tuple[str, ...] = get_args(Device)

_SHARE = 0.8  # of the free memory of a GPU that tables may take: batches, scores and the kernels' copies need some, too
_chosen: Device | None = None


class Place(NamedTuple):
    """Where tables lie, where their rows are computed with, and why, in words."""

    home: torch.device
    device: torch.device
    why: str


def use(name: Device | None) -> None:
    """Choose the device for all that this process does from now on; None for that of each recipe."""
    global _chosen
    _chosen = None if name is None else _known(name)


def chosen() -> Device | None:
    """What `use` has chosen."""
    return _chosen


def named(name: Device) -> Device:
    """The name that counts: the one that `use` has chosen, or else this one."""
    return _known(_chosen or name)


def find(name: Device) -> torch.device:
    """The device to compute on: the one that `use` has chosen, or else the one of this name. `auto` is a GPU if there
    is one."""
    name = named(name)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, found in there.items() if found))
    if not there[name]:
        built = (
            "this torch is built without it" if name == "cuda" and not torch.backends.cuda.is_built() else "none found"
        )
        raise UsageError(
            f"there is no device '{name}' here ({built}): take auto or cpu, or install torch for your GPU."
        )
    return torch.device(name)


def find_own(name: Device, number: int) -> torch.device:
    """As `find`, for the worker with this number on its machine: each has a GPU of its own. `auto` is the CPU where
    there are too few. Rows cannot travel between Apple's GPUs, which are not taken."""
    name, device = named(name), find(name)
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    if number < count:
        return torch.device("cuda", number)
    if device.type == "cpu" or name == "auto":
        return torch.device("cpu")
    if device.type == "mps":
        raise UsageError("a training in parts takes the CPU, or GPUs of NVIDIA or AMD: set --device cpu.")
    raise UsageError(
        f"worker {number + 1} of this machine has no GPU of its own: there are {count}. Start at most {count} workers "
        "per machine, or take --device cpu."
    )


def unused(name: Device) -> str:
    """Why `auto` takes the CPU where a GPU could be expected; nothing where none could."""
    if named(name) != "auto":
        return ""
    if torch.cuda.is_available():
        return "The CPU computes: not every worker has a GPU of its own."
    return "The CPU computes: torch is built for GPUs and finds none." if torch.backends.cuda.is_built() else ""


@contextmanager
def from_host(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor of the CPU to write into: this one or, where it lies elsewhere, one whose content goes there."""
    host = torch.empty_like(tensor, device="cpu") if tensor.device.type != "cpu" else tensor
    yield host
    if host is not tensor:
        tensor.copy_(host)


def place(device: torch.device, needed: int, free: int | None = None) -> Place:
    """Where tables that need so many bytes, with all that belongs to them, lie: on the device if they fit, else in the
    computer's memory, from where a step's rows are copied. `free`: bytes on the device, asked for unless given."""
    if device.type in ("cpu", "meta"):
        return Place(device, device, "the CPU computes")
    free = free_bytes(device) if free is None else free
    told = f"the tables need {needed / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free on it"
    if needed <= _SHARE * free:
        return Place(device, device, f"{_title(device)} computes; {told}: they lie there")
    return Place(torch.device("cpu"), device, f"{_title(device)} computes; {told}: they stay in the computer's memory")


def free_bytes(device: torch.device) -> int:
    """Free memory of a GPU, with what torch keeps of an earlier training for the next one."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()


def _title(device: torch.device) -> str:
    return (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else "Apple's GPU"
        if device.type == "mps"
        else str(device)
    )


def _known(name: Device) -> Device:
    if name not in DEVICES:
        raise UsageError(f"'{name}' is not a device: it takes one of {', '.join(DEVICES)}.")
    return name
