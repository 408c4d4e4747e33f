"""Score functions, one short file each, and where to find them by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transher.models.complex import ComplEx
from transher.models.distmult import DistMult
from transher.models.hole import HolE
from transher.models.manifolde import ManifoldE
from transher.models.model import Model, Query
from transher.models.pairre import PairRE
from transher.models.rescal import RESCAL
from transher.models.rotate import RotatE
from transher.models.seek import SEEK
from transher.models.transe import TransE, TransEL2
from transher.models.transh import TransH
from transher.models.transher import TranSHER
from transher.models.transr import TransR

if TYPE_CHECKING:
    from transher.training.recipe import ModelSettings

MODELS: dict[str, type[Model]] = {
    model.name: model
    for model in (
        TranSHER, PairRE, TransE, TransEL2, TransH, TransR, ManifoldE, RESCAL, DistMult, HolE, ComplEx, RotatE, SEEK,
    )
}  # fmt: skip


def build_model(settings: ModelSettings) -> Model:
    """The model that a recipe names."""
    if settings.name == SEEK.name:
        return SEEK(settings.k, settings.gamma, settings.segments)
    return MODELS[settings.name](settings.k, settings.gamma)


__all__ = ["MODELS", "Model", "Query", "build_model"]
