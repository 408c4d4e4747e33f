"""Recipes as text: TOML in and out, those that ship with the package, and the settings of earlier versions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from transher.errors import InputError, UsageError, nearest
from transher.models.catalogue import DEFAULT_MODEL, model_class, own_settings

_LARGEST, _DOTS = 1 << 20, 100  # bytes of a recipe, and dots of one of its lines


def recipe_names() -> list[str]:
    """The recipes that ship with the package."""
    files = resources.files("transher.recipes").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def recipe_text(name_or_file: str | Path) -> tuple[str, str]:
    """The TOML of a recipe, by the name of a shipped one or by its file, and where it comes from."""
    path = Path(name_or_file)
    if path.suffix.lower() == ".toml":
        if not path.is_file():
            raise InputError("there is no such recipe file.", file=path)
        if path.stat().st_size > _LARGEST:
            raise InputError(f"is no recipe: it is larger than {_LARGEST:,} bytes.", file=path)
        try:
            return path.read_text("utf-8"), str(path)
        except UnicodeDecodeError as error:
            raise InputError(f"is not UTF-8 ({error.reason} at byte {error.start:,}).", file=path) from None
    name, names = str(name_or_file), recipe_names()
    if name not in names:
        hint = nearest(name, names) or f"Shipped: {', '.join(names)}; or give a path that ends in .toml."
        raise UsageError(f"there is no recipe '{name}'. {hint}")
    return resources.files("transher.recipes").joinpath(f"{name}.toml").read_text("utf-8"), name


def setting_pairs(settings: Mapping[str, Any] | Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Each setting's key and value, from a mapping or from texts `KEY=VALUE`."""
    if isinstance(settings, Mapping):
        yield from ((key.strip(), _plain(value)) for key, value in settings.items())
        return
    if isinstance(settings, str):
        raise UsageError(f"settings are a mapping or a list of texts, not one text: write ['{settings}'].")
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"a setting is KEY=VALUE, such as training.steps=20000, not '{setting}'.")
        yield key.strip(), setting_value(value.strip())


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's: a recipe is strict about its types."""
    return value.item() if hasattr(value, "item") else value


def setting_value(text: str) -> Any:
    """A TOML value, or the text itself where it is a bare word."""
    try:
        return _parsed(f"value = {text}")["value"]
    except ValueError:
        return text


def toml_sections(text: str, source: str) -> dict[str, Any]:
    """The values of a recipe's TOML: sections of settings, and nothing within these."""
    try:
        values = _parsed(text)
    except ValueError as error:
        raise InputError(f"is not valid TOML: {error}.", file=source) from None
    for section, settings in values.items():
        for key, value in settings.items() if isinstance(settings, dict) else ():
            if isinstance(value, dict | list):
                raise InputError(
                    f"is no recipe: {_brief(section)}.{_brief(key)} holds further values, and a setting is one.",
                    file=source,
                )
    return values


def _parsed(text: str) -> dict[str, Any]:
    """The values of TOML, or a `ValueError`. Python's parser takes a time that is cubic in the parts of a key."""
    if any(line.count(".") > _DOTS for line in text.splitlines()):
        raise ValueError(f"a line has more than {_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def _brief(key: str) -> str:
    return key if len(key) <= 60 else f"{key[:60]}…"


def as_toml(sections: dict[str, dict[str, Any]]) -> str:
    lines: list[str] = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def modernised(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a recipe of version 0.1.0 as this version has them; others as they are.

    `training.pool` was "shared" or "independent", beside `training.pools`; and every recipe had SEEK's `segments`.
    """
    model, training = values.get("model"), values.get("training")
    if isinstance(training, dict) and training.get("pool") in ("shared", "independent"):
        pools = "each" if training["pool"] == "independent" else training.get("pools", 1)
        training = {key: value for key, value in training.items() if key != "pool"} | {"pools": pools}
        values = values | {"training": training}
    if isinstance(model, dict) and "segments" in model and not _has(model.get("name", DEFAULT_MODEL), "segments"):
        values = values | {"model": {key: value for key, value in model.items() if key != "segments"}}
    return values


def _has(model: Any, setting: str) -> bool:
    try:
        return setting in own_settings(model_class(model))
    except UsageError:
        return False
