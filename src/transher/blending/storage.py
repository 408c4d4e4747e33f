"""The weights of a blend on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import TypeAdapter

from transher.blending.blend import Weights
from transher.blending.tallies import LEVELS
from transher.errors import InputError
from transher.files import read_safetensors, write_safetensors

BLEND_FILE = "blend.safetensors"
_FORMAT = "2"
_BENDS = TypeAdapter(tuple[float, ...])
_REMEDY = "It was cut short or changed after it was written: take a copy, or blend the runs again."


def save_weights(folder: Path, weights: Weights, members: Sequence[str]) -> None:
    """members: the hashes of what they answer from, so that the file is of these members and no others."""
    said = {"format": _FORMAT, "bends": json.dumps(weights.bends), "members": json.dumps(list(members))}
    arrays = {"weights": weights.values.numpy()}
    if weights.worth is not None:
        arrays["tallies"] = weights.worth.numpy()
    write_safetensors(folder / BLEND_FILE, arrays, said)


def load_weights(folder: Path, members: int, relations: int) -> Weights:
    """The weights in the folder of a blend of so many members, checked."""
    path = folder / BLEND_FILE
    if not path.is_file():
        raise InputError("there is no such file.", file=path, remedy="The blend is not whole: make it again.")
    try:
        arrays, said = read_safetensors(path)
        if said.get("format") != _FORMAT:
            raise InputError(
                f"has format {said.get('format')!r}, and this version of transher reads {_FORMAT!r}.", file=path
            )
        values, bends = torch.from_numpy(arrays["weights"]), _BENDS.validate_json(said["bends"])
        worth = torch.from_numpy(arrays["tallies"]) if "tallies" in arrays else None
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"does not hold the weights of a blend ({error}).", file=path, remedy=_REMEDY) from None
    if values.shape != (members, 2, relations) or values.dtype != torch.float32 or len(bends) != members:
        found = f"{tuple(values.shape)} weights and {len(bends)} bends"
        raise InputError(f"has {found}, where recipe and graph say {(members, 2, relations)} and {members}.", file=path)
    if worth is not None and (worth.shape != (2 * relations, LEVELS) or worth.dtype != torch.float32):
        expected = (2 * relations, LEVELS)
        raise InputError(
            f"has {tuple(worth.shape)} for tallies, where {expected} are needed.", file=path, remedy=_REMEDY
        )
    if not bool((values.isfinite() & (values >= 0)).all()) or not all(0 <= bend < 1e9 for bend in bends):
        raise InputError("has weights that are negative or not finite.", file=path, remedy=_REMEDY)
    if worth is not None and not bool(worth.isfinite().all()):
        raise InputError("has tallies whose worth is not finite.", file=path, remedy=_REMEDY)
    return Weights(values, bends, worth)
