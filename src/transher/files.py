"""Files and folders that are either whole or not there: written beside their place, flushed to disk, then renamed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from glob import escape
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray
from pydantic import NonNegativeInt, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from transher.errors import InputError, UsageError

_SAFETENSORS_TYPES = {"float32": "F32", "float64": "F64", "int32": "I32", "int64": "I64", "uint8": "U8", "bool": "BOOL"}
_DTYPES = {written: name for name, written in _SAFETENSORS_TYPES.items()}


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that takes `path`'s place once the block ends well; otherwise `path` stays as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _part(path)
    try:
        with part.open("w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _flush(path.parent)
    finally:
        part.unlink(missing_ok=True)


class AlreadyThere(UsageError):
    """Another process has made the folder in the meantime."""


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill that appears at `folder`, which is new or empty, once the block ends well. If the block fails
    nothing is left. A kill leaves a hidden folder beside `folder`, which the next that is `writing` it removes."""
    folder = folder.resolve()  # a link to an empty folder stays, and its target is replaced
    if folder == Path.cwd() or folder.is_mount():
        kind = "a mount point" if folder.is_mount() else "the folder that you are in"
        raise UsageError(f"{folder} is {kind} and cannot be replaced: name a new folder inside it.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = _part(folder)
    try:
        part.mkdir()
        yield part
        for content in sorted(part.rglob("*"), reverse=True):  # what a folder holds before the folder
            _flush(content)
        _flush(part)
        with suppress(OSError):
            folder.rmdir()  # an empty one: Windows does not rename onto it
        try:
            os.replace(part, folder)
        except OSError:
            if folder.is_dir() and any(folder.iterdir()):
                raise AlreadyThere(f"{folder} was made by another process in the meantime.") from None
            raise
        _flush(folder.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def alone(path: Path, what: str) -> Iterator[None]:
    """For one process at a time: a second one is told that another is at `what`. The lock is the system's, on the empty
    file `path`, so that a kill sets it free. Where the system has no such locks (Windows), there is none."""
    if os.name != "posix":
        yield
        return
    locks = import_module("fcntl")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            locks.flock(file, locks.LOCK_EX | locks.LOCK_NB)
            held = os.path.samestat(os.fstat(file.fileno()), path.stat())  # and not one that has just been removed
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:
            raise UsageError(f"another process is at {what}: wait for it, or choose another place.")
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def wait_for_lock(file: BinaryIO) -> None:
    """Wait until no other process holds the lock of a file, and hold it until the file is closed. Where the system has
    no such locks (Windows), there is none."""
    if os.name == "posix":
        locks = import_module("fcntl")
        locks.flock(file, locks.LOCK_EX)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """For one process at a time that writes the file or folder `path`. The lock lies beside `path`, which need not be
    there yet; what a killed process left of writing it is removed."""
    path = path.resolve()
    with alone(path.with_name(f".{path.name}.lock"), str(path)):
        for name in (path.name, f".{path.name}.state"):  # and of what it takes to resume
            for part in path.parent.glob(f".{escape(name)}.{'[0-9a-f]' * 8}.part"):
                _remove(part)
        yield


def sweep(folder: Path) -> None:
    """Remove what a killed process was writing into `folder` when it was killed."""
    for part in folder.glob(".*.part"):
        _remove(part)


def _part(path: Path) -> Path:
    """A new place beside `path` to write to, with a name of its own for every writer."""
    return path.with_name(f".{path.name}.{token_hex(4)}.part")


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part)
    else:
        part.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Make what is in a file, or the renames in a folder, survive a power cut, where the system can flush it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


Schema = TypeVar("Schema")


def read_json(path: Path, schema: TypeAdapter[Schema], what: str, remedy: str) -> Schema:
    """The value of a JSON file, of the type that it should have; anything else is an error that says so."""
    try:
        return schema.validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(f"is not {what} ({first_fault(error)}).", file=path, remedy=remedy) from None


def first_fault(error: ValidationError) -> str:
    """What is wrong first, and where, in a few words."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"][:5])
    return f"{where[:100]}: {fault['msg'][:200]}" if where else fault["msg"][:200]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_safetensors(
    path: Path, arrays: Mapping[str, NDArray[Any] | Sequence[NDArray[Any]]], metadata: Mapping[str, str]
) -> None:
    """Arrays, some perhaps in pieces of rows, in the safetensors format, straight from memory: the library's own writer
    first copies every array to bytes, which doubles the memory of a large table. The header's `xxh3_128` covers all the
    data behind the header, so that a file can be checked on its own: against accidents, not against forgers. SHA-256
    would take as long as the disk does."""
    digest = xxhash.xxh3_128()
    blank = digest.hexdigest()
    header: dict[str, Any] = {"__metadata__": {**metadata, "xxh3_128": blank}}
    offset = 0
    pieces = {name: [array] if isinstance(array, np.ndarray) else array for name, array in arrays.items()}
    for name, parts in pieces.items():
        end = offset + sum(part.nbytes for part in parts)
        shape = parts[0].shape if len(parts) == 1 else (sum(map(len, parts)), *parts[0].shape[1:])
        header[name] = {
            "dtype": _SAFETENSORS_TYPES[parts[0].dtype.name],
            "shape": list(shape),
            "data_offsets": [offset, end],
        }
        offset = end
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    data = [np.ascontiguousarray(part).reshape(-1).view(np.uint8).data for parts in pieces.values() for part in parts]
    # Hashed beside the writing: a training waits for this.
    with replacing(path) as file, ThreadPoolExecutor(1) as beside:
        hashed = [beside.submit(digest.update, part) for part in data]
        file.write(len(encoded).to_bytes(8, "little"))
        file.write(encoded)
        for part in data:
            file.write(part)
        for part_hashed in hashed:
            part_hashed.result()
        file.seek(8)
        file.write(encoded.replace(blank.encode(), digest.hexdigest().encode(), 1))


class _Tensor(TypedDict):
    dtype: str
    shape: list[NonNegativeInt]
    data_offsets: tuple[NonNegativeInt, NonNegativeInt]


_TEXT_KEYS = TypeAdapter(dict[str, Any])
_METADATA, _TENSORS = TypeAdapter(dict[str, str]), TypeAdapter(dict[str, _Tensor])
_HEADER_BYTES = 100_000_000


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Arrays and metadata of a file that `write_safetensors` wrote, in memory: nothing that happens to the file later
    reaches them, and the bytes that were hashed are the bytes that are given. A `ValueError` says what is wrong."""
    with path.open("rb") as file:
        metadata, tensors = _header(file)
        name, kind = ("xxh3_128", xxhash.xxh3_128) if "xxh3_128" in metadata else ("sha256", hashlib.sha256)  # older
        digest, arrays = kind(), {}
        for key, tensor in tensors.items():
            arrays[key] = array = np.empty(tensor["shape"], _DTYPES[tensor["dtype"]])
            data = array.reshape(-1).view(np.uint8).data
            if file.readinto(data) != len(data):
                raise ValueError("it ends too early")
            digest.update(data)
    if digest.hexdigest() != metadata.get(name):
        raise ValueError("its content does not have the hash that it was written with")
    return arrays, metadata


def fill_from_safetensors(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Read arrays of a file into contiguous ones that are there, with no copy of a large table beside it. A
    `ValueError` says what does not fit."""
    with path.open("rb") as file:
        tensors = _header(file)[1]
        if absent := sorted(arrays.keys() - tensors.keys()):
            raise ValueError(f"it lacks {absent[0]}")
        for key, tensor in tensors.items():
            start, end = tensor["data_offsets"]
            if key not in arrays:
                file.seek(end - start, os.SEEK_CUR)
                continue
            array = arrays[key]
            if list(array.shape) != tensor["shape"] or array.dtype.name != _DTYPES[tensor["dtype"]]:
                raise ValueError(f"{key} has the shape {tensor['shape']} where {list(array.shape)} is needed")
            if file.readinto(array.reshape(-1).view(np.uint8).data) != end - start:
                raise ValueError("it ends too early")


def read_safetensors_metadata(path: Path) -> dict[str, str]:
    """What a file says of itself, without its arrays."""
    with path.open("rb") as file:
        return _header(file)[0]


def safetensors_is_whole(path: Path) -> bool:
    """Whether the data still has the hash that `write_safetensors` put into the header, without the data in memory."""
    with path.open("rb") as file:
        metadata, _ = _header(file)
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest() == metadata.get("xxh3_128")


def _header(file: BinaryIO) -> tuple[dict[str, str], dict[str, _Tensor]]:
    """Metadata, and what arrays follow, in their order and without a gap up to the end of the file."""
    length = int.from_bytes(file.read(8), "little")
    if not 0 < length < _HEADER_BYTES:
        raise ValueError("it is not a safetensors file")
    header = _TEXT_KEYS.validate_json(file.read(length))
    metadata = _METADATA.validate_python(header.pop("__metadata__", {}), strict=True)
    tensors = _TENSORS.validate_python(header)
    place = 0
    for tensor in tensors.values():
        size = math.prod(tensor["shape"]) * np.dtype(_DTYPES.get(tensor["dtype"], "V0")).itemsize
        if tensor["dtype"] not in _DTYPES or tensor["data_offsets"] != (place, place + size):
            raise ValueError("its header contradicts itself")
        place += size
    if os.fstat(file.fileno()).st_size != 8 + length + place:
        raise ValueError("it does not have the length that its header says")
    return metadata, tensors
