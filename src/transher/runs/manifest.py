"""The manifest: the last file of a run, with the versions, seed and cost of its training and the hash of every file."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired

import torch
from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from transher.answering.storage import JUDGE_FILE, LEVELS_FILE
from transher.errors import InputError
from transher.files import read_json, sha256, write_json
from transher.models.catalogue import provenance as model_provenance
from transher.runs.folder import MANIFEST_FILE
from transher.training.checkpoints import STATE_FILE
from transher.training.loss import provenance as loss_provenance
from transher.training.recipe import Recipe
from transher.training.rule_recipe import AnyRecipe, RuleRecipe
from transher.versions import version_of

FORMAT = 1


class _Machine(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    threads: int


class _Member(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    recipe: dict[str, Any]
    cost: dict[str, float]


class _Manifest(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    format: int
    versions: dict[str, str | None]
    machine: _Machine
    cost: dict[str, float]
    members: NotRequired[list[_Member]]
    files: dict[str, str]


_SCHEMA = TypeAdapter(_Manifest)


def write_manifest(
    folder: Path, recipe: AnyRecipe, cost: Mapping[str, float], members: Sequence[dict[str, Any]] = ()
) -> None:
    """With it, the run is finished. `members` are what a joined run or a blend was made of."""
    made_by: dict[str, Any] = {}
    if isinstance(recipe, RuleRecipe):
        made_by = {"seed": recipe.mining.seed}
    elif isinstance(recipe, Recipe):
        made_by = {"loss": loss_provenance(recipe.training.loss), "seed": recipe.training.seed}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_listed(path.relative_to(folder))]
    write_json(
        folder / MANIFEST_FILE,
        {
            "format": FORMAT,
            "versions": {name: version_of(name) for name in ("transher", "torch", "numpy", "pyarrow")}
            | {"python": platform.python_version()},
            "machine": {
                "processor": platform.machine(),
                "system": platform.system(),
                "threads": torch.get_num_threads(),
            },
            "model": model_provenance(recipe.model.name),
            **made_by,
            "cost": dict(cost),
            **({"members": list(members)} if members else {}),
            "files": {str(path.relative_to(folder)): sha256(path) for path in files},
        },
    )


def _is_listed(path: Path) -> bool:
    """Whether a file must stay as it is. A judge may be fitted anew, and has checks of its own."""
    replaced = path.name in (JUDGE_FILE, LEVELS_FILE)
    # The parts of a sharded run have their hashes in its pointers.
    return (
        path.parts[0] not in ("tensorboard", "model", "checkpoint", MANIFEST_FILE)
        and not replaced
        and not path.name.startswith(".")
    )


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What the manifest says, once every file that it lists has been found to have its hash; None for a run that is
    not finished."""
    path = folder / MANIFEST_FILE
    if not path.exists():
        return None
    read = read_json(path, _SCHEMA, "a manifest", "Take a copy of the run, or train again.")
    manifest: dict[str, Any] = {**read}
    if manifest["format"] != FORMAT:
        raise InputError(f"has format {manifest['format']}, and this version of transher reads {FORMAT}.", file=path)
    for name, digest in manifest["files"].items():
        if "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise InputError(f"lists {name!r}, which is no file of a run.", file=path, remedy="Take a copy of the run.")
        if not (folder / name).is_file():
            raise InputError(
                "is missing, though the manifest lists it.", file=folder / name, remedy="Copy the whole run."
            )
        # A checkpoint is large, nothing is answered from it, and it has a hash of its own for an update.
        if Path(name).name != STATE_FILE and sha256(folder / name) != digest:
            raise InputError(
                "does not have the hash that the manifest says.",
                file=folder / name,
                remedy="It was cut short or changed after the training: take a copy of the run, or train again.",
            )
    return manifest
