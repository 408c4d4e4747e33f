"""Every setting of a recipe with its meaning, its default and what it may be, read off the recipe itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo

from transher.errors import UsageError, nearest
from transher.models.catalogue import BUILT_IN, model_class, model_names
from transher.models.initialisation import STRATEGIES
from transher.training.loss import loss_names
from transher.training.recipe import Recipe
from transher.training.settings import ModelSettings, model_settings

_KINDS = {int: "a whole number", float: "a number", str: "text"}
_BOUNDS = {"ge": "≥ {}", "gt": "> {}", "le": "≤ {}", "lt": "< {}"}


@dataclass(frozen=True)
class Setting:
    """One setting. `model_defaults`: where the default recipe of a model has another value than `default`; `models`:
    those that have the setting, where not all do."""

    name: str  # as --set spells it
    meaning: str
    allowed: str
    default: Any  # None if it must be given
    model_defaults: dict[str, Any] = field(default_factory=dict)
    models: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def describe_settings(wanted: str | None = None) -> list[Setting]:
    """Every setting, or those of a section, or the one of this name, with or without its section."""
    settings = list(_every_setting())
    if wanted is None:
        return settings
    found = [one for one in settings if wanted in (one.section, one.name, one.name.partition(".")[2])]
    if not found:
        names = [one.name for one in settings]
        short = {name.partition(".")[2]: name for name in names}
        hint = nearest(wanted, [*names, *short, *section_titles()]) or f"Sections: {', '.join(section_titles())}."
        raise UsageError(f"there is no section and no setting '{wanted}'. {hint}")
    return found


def section_titles() -> dict[str, str]:
    """The sections of a recipe, and what each is about."""
    kinds = {name: info.annotation for name, info in Recipe.model_fields.items()}
    return {name: " ".join((kind.__doc__ or "").split()) for name, kind in kinds.items() if kind is not None}


def _every_setting() -> Iterator[Setting]:
    defaults = {name: model_class(name).defaults for name in BUILT_IN}
    for section, info in Recipe.model_fields.items():
        assert info.annotation is not None
        kind: Any = info.annotation
        for key, setting in kind.model_fields.items():
            name = f"{section}.{key}"
            differing = {model: values[name] for model, values in defaults.items() if name in values}
            yield _described(name, setting, {m: v for m, v in differing.items() if v != setting.default})
        if kind is ModelSettings:
            yield from _own_settings()


def _own_settings() -> Iterator[Setting]:
    """What single models have besides."""
    found: dict[str, tuple[FieldInfo, list[str]]] = {}
    for model in BUILT_IN:
        for key, info in model_settings(model).model_fields.items():
            if key not in ModelSettings.model_fields:
                found.setdefault(key, (info, []))[1].append(model)
    for key, (info, models) in found.items():
        yield _described(f"model.{key}", info, {}, tuple(models))


def _described(name: str, info: FieldInfo, model_defaults: dict[str, Any], models: tuple[str, ...] = ()) -> Setting:
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    return Setting(name, info.description or "", _allowed(name, info), default, model_defaults, models)


def _allowed(name: str, info: FieldInfo) -> str:
    """What a setting may be, in words."""
    choices = {"model.name": model_names, "model.init": lambda: STRATEGIES, "training.loss": loss_names}
    if name in choices:
        own = {"model.name": ", or package.module:Class", "training.loss": ", or package.module:function"}
        return f"{', '.join(choices[name]())}{own.get(name, '')}"
    kind = info.annotation
    if get_origin(kind) is Literal:
        return ", ".join(str(choice) for choice in get_args(kind))
    if kind is bool:
        return "true, false"
    if name == "training.pools":  # its bounds stand in a validator, since it is a number or a word
        return "a whole number ≥ 1, or each"
    if name == "training.negatives":
        return "a whole number ≥ 1, or all"
    bounds = [
        words.format(f"{getattr(bound, attribute):g}")
        for bound in info.metadata
        if isinstance(bound, annotated_types.BaseMetadata)
        for attribute, words in _BOUNDS.items()
        if getattr(bound, attribute, None) is not None
    ]
    return " ".join(
        [_KINDS.get(kind, str(kind)) if isinstance(kind, type) else str(kind), " and ".join(bounds)]
    ).strip()
