"""What a training leaves on disk as it goes: the best weights so far, and all that it takes to resume."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from transher.errors import InputError, TransherError
from transher.files import read_safetensors_header, safetensors_is_whole, write_safetensors

FORMAT = "1"
MODEL_FILE = "model.safetensors"
STATE_FILE = "optimizer.safetensors"


@dataclass
class TrainingState:
    """Where a training stands."""

    step: int = 0  # steps done
    best_mrr: float | None = None
    best_step: int = 0
    stale: int = 0  # validations since the best
    seconds: float = 0.0  # of training, all sessions together
    updates: int = 0  # since the optimiser was made or reset
    mark: float | None = None  # the MRR that a later one must exceed clearly to count as better
    drops: int = 0  # of the learning rate, with the schedule plateau


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    arrays = {name: tensor.detach().contiguous().numpy() for name, tensor in tensors.items()}
    write_safetensors(path, arrays, {"format": FORMAT, "state": json.dumps(metadata)})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a file that `write_tensors` wrote; anything else is an error that says so."""
    if not path.is_file():
        raise InputError("there is no such file.", file=path, remedy="The training left no weights: start it again.")
    remedy = "It was cut short or changed after it was written: take a copy or train again."
    try:
        header, _ = read_safetensors_header(path)
        metadata = header.get("__metadata__", {})
        if metadata.get("format") != FORMAT:
            raise InputError(
                f"has format {metadata.get('format')!r}, and this version of transher reads {FORMAT!r}.", file=path
            )
        if not safetensors_is_whole(path):
            raise InputError("its content does not have the hash that it was written with.", file=path, remedy=remedy)
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata["state"])  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise InputError(f"is not a whole safetensors file ({error}).", file=path, remedy=remedy) from None


def save_model(folder: Path, entities: Tensor, relations: Tensor, step: int, mrr: float | None) -> None:
    """The weights that answers come from."""
    write_tensors(folder / MODEL_FILE, {"entities": entities, "relations": relations}, {"step": step, "mrr": mrr})


def save_state(folder: Path, tensors: dict[str, Tensor], progress: TrainingState) -> None:
    """Latest weights, optimiser state and progress in one file, so that one rename makes all of it current."""
    said = {name: value for name, value in asdict(progress).items() if value is not None}
    write_tensors(folder / STATE_FILE, tensors, said)


def load_state(folder: Path) -> tuple[dict[str, Tensor], TrainingState]:
    if not (folder / STATE_FILE).is_file():
        raise TransherError(f"{folder} has no checkpoint to resume from: train into a new folder.")
    tensors, metadata = read_tensors(folder / STATE_FILE)
    for name in tensors:  # training writes into them, and the file must stay as it is; one copy at a time
        tensors[name] = tensors[name].clone()
    return tensors, TrainingState(**metadata)
