"""A device that is not there: tensors that say they are on `meta`, with their content on the CPU.

As on a GPU, an operation on tensors of both is an error; other than on `meta`, there are results to compare.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

THERE = torch.device("meta")

# What may have tensors of both devices on a GPU: copies, and a tensor there with ids from here.
_COPIES = {"aten::copy_"}
_INDEXING = {"aten::index", "aten::index_put_", "aten::_index_put_impl_"}


class There(Tensor):
    """A tensor that seems to be on the device."""

    content: Tensor

    @staticmethod
    def __new__(cls, content: Tensor) -> There:
        made: There = Tensor._make_wrapper_subclass(
            cls,
            content.shape,
            strides=content.stride(),
            storage_offset=content.storage_offset(),
            dtype=content.dtype,
            device=THERE,
        )
        made.content = content
        return made

    def tolist(self) -> Any:
        return self.content.tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _computed(func, args, kwargs or {})


class PretendedDevice(TorchDispatchMode):
    """While it is on, tensors can be made on the device and brought there; in this thread."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _computed(func, args, kwargs or {})


class Threads(ThreadPoolExecutor):
    """Threads for which the device is there, too."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        def work() -> Any:
            with PretendedDevice():
                return fn(*args, **kwargs)

        return super().submit(work)


def _computed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name, wanted = func._schema.name, kwargs.get("device")
    tensors = [part for part in tree_leaves((args, kwargs)) if isinstance(part, Tensor)]
    of_there = [isinstance(part, There) for part in tensors]
    if wanted is None and name not in _COPIES:
        _refuse_mixed(name, tensors, of_there)
    found = _conjugate(args[0]) if name == "aten::_conj" else func(*tree_map(_content, args), **_here(kwargs))
    if func._schema.is_mutable:
        return kwargs.get("out", args[0])
    goes = any(of_there) if wanted is None else torch.device(wanted) == THERE
    return tree_map(lambda part: There(part) if isinstance(part, Tensor) else part, found) if goes else found


def _refuse_mixed(name: str, tensors: list[Tensor], of_there: list[bool]) -> None:
    """An error where tensors of both devices meet; single numbers and ids of the CPU may come along."""
    if any(of_there) and not (name in _INDEXING and of_there[0]):
        strangers = [
            tuple(part.shape) for part, there in zip(tensors, of_there, strict=True) if not there and part.dim()
        ]
        assert not strangers, f"{name} meets tensors {strangers} of the CPU and others of the device"


def _content(part: Any) -> Any:
    return part.content if isinstance(part, There) else part


def _here(kwargs: dict[str, Any]) -> dict[str, Any]:
    own = {name: _content(value) for name, value in kwargs.items()}
    return own | ({"device": torch.device("cpu")} if own.get("device") is not None else {})


def _conjugate(part: Any) -> Tensor:
    """Made at once: a content that is conjugated later would be forgotten."""
    numbers = _content(part)
    return torch.complex(numbers.real.clone(), -numbers.imag)
