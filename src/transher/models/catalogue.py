"""Which model a name means, and how it is built from a recipe. Needs no torch until a model is asked for."""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, get_type_hints

from transher.errors import UsageError
from transher.extensions import Extensions

if TYPE_CHECKING:
    from transher.models.model import Model

DEFAULT_MODEL = "transher"
BUILT_IN = {
    DEFAULT_MODEL: "transher.models.transher:TranSHER",
    "pairre": "transher.models.pairre:PairRE",
    "transe": "transher.models.transe:TransE",
    "transe-l2": "transher.models.transe:TransEL2",
    "transh": "transher.models.transh:TransH",
    "transr": "transher.models.transr:TransR",
    "manifolde": "transher.models.manifolde:ManifoldE",
    "rescal": "transher.models.rescal:RESCAL",
    "distmult": "transher.models.distmult:DistMult",
    "hole": "transher.models.hole:HolE",
    "complex": "transher.models.complex:ComplEx",
    "rotate": "transher.models.rotate:RotatE",
    "seek": "transher.models.seek:SEEK",
}
# Those that are tried on a graph when nobody names one: distances, and dot products. The first of each is tried always.
TRIED_DISTANCES, TRIED_PRODUCTS = (DEFAULT_MODEL, "rotate"), ("complex", "distmult")
RULES = "rules"  # no model with weights: logical rules, which are mined
BLEND = "blend"  # nor this: runs of whichever kind, blended
CHOICE = "choice"  # nor this: models that are tried, trained and blended, until they are a blend
_SCORERS = {RULES: "transher.rules:Rules", BLEND: "transher.blending:Blend"}
_EXTENSIONS = Extensions("model", "transher.models", BUILT_IN)


class Choice(Protocol):
    """What a recipe says about its model."""

    name: str
    k: int
    gamma: float

    @property
    def own(self) -> dict[str, Any]:
        """Settings that this model has and others have not."""


def model_names() -> list[str]:
    """The models that ship with the package, and those that other packages publish."""
    return _EXTENSIONS.names()


@cache
def model_class(name: str) -> type[Model]:
    """The class of a model, by its name in the catalogue, an entry point, or `package.module:Class`."""
    from transher.models.model import Model

    if name == RULES:
        raise UsageError(f"'{RULES}' are mined, and have no settings of a model with weights: use a model instead.")
    if name == BLEND:
        raise UsageError(f"a '{BLEND}' is made of finished runs: transher blend RUN RUN --out NEW.")
    if name == CHOICE:
        raise UsageError(f"a '{CHOICE}' is what `transher train GRAPH` makes without a model: leave the model out.")
    found = _EXTENSIONS.find(name)
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise UsageError(f"'{name}' is not a model: it must be a class that inherits from transher.models.Model.")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise UsageError(f"the model '{name}' is not complete: it does not define {missing}.")
    return found


def own_settings(model: type[Model]) -> dict[str, tuple[Any, Any]]:
    """The settings that a model has besides k and γ: type and default of the further arguments of its constructor. One
    without a default must be given."""
    types = get_type_hints(model.__init__, include_extras=True)
    _, _, *further = inspect.signature(model).parameters.values()
    return {
        one.name: (types.get(one.name, Any), ... if one.default is one.empty else one.default)
        for one in further
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    }


def build_model(choice: Choice) -> Model:
    """The model that a recipe names, with its settings."""
    kind = model_class(choice.name)
    try:
        return kind(choice.k, choice.gamma, **choice.own)
    except ValueError as error:
        raise UsageError(str(error)) from error


def provenance(name: str) -> dict[str, str]:
    """Where a model comes from: its module, class, and the distribution with its version, for the run's manifest."""
    return _EXTENSIONS.provenance(_SCORERS.get(name, name))
