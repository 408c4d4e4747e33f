"""Sharded tables on disk, by Distributed Checkpoint: a file of safetensors per part, and a pointer once all are there.

The files of a checkpoint are in a folder of their own. The pointer, a small JSON file, is replaced when every worker
has written: so a checkpoint is whole, or it is not there. Files are by part and not by worker, so any number of workers
reads them.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, StringConstraints, TypeAdapter
from torch import Tensor
from typing_extensions import TypedDict

from transher.devices import from_host
from transher.errors import InputError
from transher.files import (
    fill_from_safetensors,
    read_json,
    read_safetensors,
    read_safetensors_metadata,
    safetensors_is_whole,
    write_json,
)
from transher.training.checkpoints import FORMAT, refuse_not_finite
from transher.workers import Workers

MODEL_POINTER, STATE_POINTER = "model.json", "checkpoint.json"
_FOLDERS = {MODEL_POINTER: "model", STATE_POINTER: "checkpoint"}
_TAKE_A_COPY = "It was cut short or changed after it was written: take a copy or train again."

Parts = dict[int, dict[str, Tensor]]  # by part, then by name


class Pointer(TypedDict):
    """What a pointer says. `files`: the hash of each."""

    format: str
    folder: Annotated[str, StringConstraints(pattern=r"^(model|checkpoint)/step-[0-9]{8,}$")]
    files: Annotated[dict[str, str], Field(min_length=1)]
    state: dict[str, Any]


_POINTER = TypeAdapter(Pointer)


def save_parts(run: Path, pointer: str, parts: Parts, state: dict[str, Any], workers: Workers) -> None:
    """Every worker writes its own parts, then the first one points to them. `state` goes into the pointer."""
    from transher.training.distributed_checkpoint import write_files

    name = f"{_FOLDERS[pointer]}/step-{state['step']:08}"
    # A second checkpoint of a step, at the end of a training, lies beside the first one: that is what is resumed from
    # until the pointer is replaced.
    there = workers.first and (run / pointer).is_file() and read_pointer(run, pointer)["folder"] == name
    if workers.told(there):
        name = f"{_FOLDERS[pointer]}/step-{state['step']:09}"
    folder = run / name
    if workers.first:
        shutil.rmtree(folder, ignore_errors=True)  # of an attempt that was killed
        folder.mkdir(parents=True)
    workers.meet()
    tensors = {_key(number, key): tensor for number, own in parts.items() for key, tensor in own.items()}
    write_files(folder, tensors, _file_of, alone=workers.count == 1)
    if workers.first:
        files = {path.name: _digest(path) for path in sorted(folder.glob("*.safetensors"))}
        write_json(run / pointer, {"format": FORMAT, "folder": name, "files": files, "state": state})
        sweep_parts(run, pointer)
    workers.meet()


def load_parts(run: Path, pointer: str, parts: Parts) -> None:
    """Fill the tensors of this worker's parts, in place."""
    said = read_pointer(run, pointer)
    folder = run / said["folder"]
    for number, own in parts.items():
        path = folder / _file(number)
        _refuse_changed(path, said["files"].get(_file(number)))
        try:
            # Straight into the tables, or one tensor at a time to another device: torch's own reader first has all of a
            # file in memory, which doubles it.
            for key, tensor in own.items():
                with from_host(tensor) as host:
                    fill_from_safetensors(path, {_key(number, key): host.numpy()})
        except ValueError as error:
            fault = f"does not fit the recipe and the graph ({error})."
            raise InputError(fault, file=path, remedy="Take a copy of the run.") from None
        refuse_not_finite(own, path)


def read_pointer(run: Path, pointer: str) -> Pointer:
    """What a pointer says: the folder, its files with their hashes, and the state of the training."""
    said = read_json(run / pointer, _POINTER, "the list of a run's parts", "Take a copy of the run.")
    if said["format"] != FORMAT:
        raise InputError(f"has format {said['format']!r}, and this version reads {FORMAT!r}.", file=run / pointer)
    if sorted(said["files"]) != [_file(number) for number in range(len(said["files"]))]:
        raise InputError("does not name every part once.", file=run / pointer, remedy="Take a copy of the run.")
    return said


def mapped_parts(run: Path, pointer: str, chosen: Sequence[int] | None = None) -> list[dict[str, Tensor]]:
    """All parts or those chosen, in order, mapped from their files, which have their hashes: rows are read from disk
    when they are used. What happens to a file later reaches them."""
    from safetensors import safe_open

    found = []
    for path, digest in part_files(run, pointer, chosen):
        _refuse_changed(path, digest)
        with safe_open(path, framework="pt") as file:
            found.append({_name(key): file.get_tensor(key) for key in file.keys()})  # noqa: SIM118
    return found


def parts_in_memory(run: Path, pointer: str, chosen: Sequence[int] | None = None) -> list[dict[str, Tensor]]:
    """As `mapped_parts`, copied into memory: nothing that happens to a file later reaches them."""
    found = []
    for path, digest in part_files(run, pointer, chosen):
        _refuse_changed(path, digest, deep=False)
        try:
            arrays = read_safetensors(path)[0]
        except ValueError as error:
            raise InputError(f"is not what was written ({error}).", file=path, remedy=_TAKE_A_COPY) from None
        found.append({_name(key): torch.from_numpy(array) for key, array in arrays.items()})
    return found


def part_files(run: Path, pointer: str, chosen: Sequence[int] | None = None) -> list[tuple[Path, str]]:
    """The files of parts and their hashes."""
    said = read_pointer(run, pointer)
    names = [_file(number) for number in (range(len(said["files"])) if chosen is None else chosen)]
    return [(run / said["folder"] / name, said["files"][name]) for name in names]


def sweep_parts(run: Path, pointer: str) -> None:
    """Remove the folders that no pointer names any more, or none has named yet."""
    current = read_pointer(run, pointer)["folder"] if (run / pointer).is_file() else None
    for folder in (run / _FOLDERS[pointer]).glob("step-*"):
        if str(folder.relative_to(run)) != current:
            shutil.rmtree(folder, ignore_errors=True)


def _key(part: int, name: str) -> str:
    return f"{name}.{part:04}"


def _name(key: str) -> str:
    return key.rpartition(".")[0]


def _file(part: int) -> str:
    return f"part-{part:04}.safetensors"


def _file_of(key: str) -> str:
    return _file(int(key.rpartition(".")[2]))


def _digest(path: Path) -> str:
    return read_safetensors_metadata(path).get("xxh3_128", "")


def _refuse_changed(path: Path, digest: str | None, deep: bool = True) -> None:
    """The file must be the one that the pointer names and, looked at `deep`, its content what it was."""
    if not path.is_file():
        raise InputError("is missing.", file=path, remedy="Copy the whole run.")
    try:
        whole = _digest(path) == digest and (not deep or safetensors_is_whole(path))
    except (ValueError, OSError) as error:
        raise InputError(f"is not a whole safetensors file ({error}).", file=path, remedy=_TAKE_A_COPY) from None
    if not whole:
        raise InputError("its content does not have the hash that it was written with.", file=path, remedy=_TAKE_A_COPY)
