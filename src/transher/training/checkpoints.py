"""What a training leaves on disk as it goes: the best weights so far, and all that it takes to resume."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field, NonNegativeFloat, TypeAdapter, ValidationError
from torch import Tensor

from transher.errors import InputError, TransherError
from transher.files import first_fault, read_safetensors, write_safetensors

FORMAT = "1"
MODEL_FILE = "model.safetensors"
STATE_FILE = "optimizer.safetensors"


Count = Annotated[int, Field(ge=0, lt=1 << 62)]  # TensorBoard takes no larger ones


@dataclass
class TrainingState:
    """Where a training stands."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    step: Count = 0  # steps done
    best_mrr: float | None = None
    best_step: Count = 0
    stale: Count = 0  # validations since the best
    seconds: NonNegativeFloat = 0.0  # of training, all sessions together
    updates: Count = 0  # since the optimiser was made or reset
    mark: float | None = None  # the MRR that a later one must exceed clearly to count as better
    drops: Count = 0  # of the learning rate, with the schedule plateau


_STATE, _SAID = TypeAdapter(TrainingState), TypeAdapter(dict[str, Any])
_REMEDY = "It was cut short or changed after it was written: take a copy or train again."


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    write_safetensors(path, arrays, {"format": FORMAT, "state": json.dumps(metadata)})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of a file that `write_tensors` wrote; anything else is an error that says so. The tensors
    are the caller's own: the file may be replaced or cut short."""
    if not path.is_file():
        raise InputError("there is no such file.", file=path, remedy="The training left no weights: start it again.")
    try:
        arrays, metadata = read_safetensors(path)
        if metadata.get("format") != FORMAT:
            raise InputError(
                f"has format {metadata.get('format')!r}, and this version of transher reads {FORMAT!r}.", file=path
            )
        said = _SAID.validate_json(metadata.get("state", ""))
    except (ValueError, OSError) as error:
        told = first_fault(error) if isinstance(error, ValidationError) else str(error)
        raise InputError(f"is not a whole safetensors file ({told}).", file=path, remedy=_REMEDY) from None
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, said


def refuse_not_finite(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Answers of such weights would be nonsense, or none at all."""
    for name, tensor in tensors.items():
        if tensor.numel() and tensor.is_floating_point() and not torch.stack(torch.aminmax(tensor)).isfinite().all():
            raise InputError(
                f"has numbers that are not finite among its {name}, so that nothing can be answered from it.",
                file=path,
                remedy="The training has diverged: train again with a smaller learning rate, or take an earlier copy.",
            )


def save_model(folder: Path, entities: Tensor, relations: Tensor, step: int, mrr: float | None) -> None:
    """The weights that answers come from."""
    write_tensors(folder / MODEL_FILE, {"entities": entities, "relations": relations}, {"step": step, "mrr": mrr})


def save_state(folder: Path, tensors: dict[str, Tensor], progress: TrainingState) -> None:
    """Latest weights, optimiser state and progress in one file, so that one rename makes all of it current."""
    said = {name: value for name, value in asdict(progress).items() if value is not None}
    write_tensors(folder / STATE_FILE, tensors, said)


def load_state(folder: Path) -> tuple[dict[str, Tensor], TrainingState]:
    path = folder / STATE_FILE
    if not path.is_file():
        raise TransherError(f"{folder} has no checkpoint to resume from: train into a new folder.")
    tensors, metadata = read_tensors(path)
    return tensors, checked_state(metadata, path)


def checked_state(said: dict[str, Any], path: Path) -> TrainingState:
    """Where a training stands, as a file says."""
    try:
        return _STATE.validate_python(said)
    except ValidationError as error:
        raise InputError(f"is not a checkpoint ({first_fault(error)}).", file=path, remedy=_REMEDY) from None
