"""Score functions, one short file each, and where to find them by name.

A model in another package needs only the names below: see docs/your_own_model.md. They are loaded on first use, so
that the catalogue can be read without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from transher.models.catalogue import BUILT_IN, build_model, model_class, model_names

if TYPE_CHECKING:
    from transher.kernels import Columns, Positions
    from transher.models.embeddings import Embeddings
    from transher.models.families import DotModel, ScaledL1Model
    from transher.models.model import Asked, Model, Part, Query

    MODELS: dict[str, type[Model]]

_HOMES = {
    "Asked": "transher.models.model",
    "Columns": "transher.kernels",
    "DotModel": "transher.models.families",
    "Embeddings": "transher.models.embeddings",
    "Model": "transher.models.model",
    "Part": "transher.models.model",
    "Positions": "transher.kernels",
    "Query": "transher.models.model",
    "ScaledL1Model": "transher.models.families",
}

__all__ = [
    "MODELS",
    "Asked",
    "Columns",
    "DotModel",
    "Embeddings",
    "Model",
    "Part",
    "Positions",
    "Query",
    "ScaledL1Model",
    "build_model",
    "model_class",
    "model_names",
]


def __getattr__(name: str) -> Any:
    if name == "MODELS":  # every model that ships with the package
        return {built_in: model_class(built_in) for built_in in BUILT_IN}
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'transher.models' has no attribute '{name}'")
