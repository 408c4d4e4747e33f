"""The recipe: every setting of a training, one typed object for Python, TOML files and flags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator

from transher.errors import UsageError, nearest
from transher.files import write_text
from transher.models.catalogue import DEFAULT_MODEL, model_class
from transher.training.recipe_files import as_toml, modernised, recipe_text, setting_pairs, toml_sections
from transher.training.settings import ModelSettings, Section, TrainingSettings, ValidationSettings, model_settings

_REASONS, _SHOWN = 5, 100  # mistakes that are told, and characters of each value


class SettingsFile(Section):
    """Settings in sections, as a file holds them."""

    def setting_names(self) -> list[str]:
        """Every setting, as `with_settings` spells it."""
        return [f"{section}.{key}" for section, values in self.model_dump().items() for key in values]

    def to_toml(self) -> str:
        """Every setting with its value, defaults written out."""
        return as_toml(self.model_dump())

    def save(self, path: Path) -> None:
        write_text(path, self.to_toml())

    @classmethod
    def checked(cls, values: dict[str, Any], source: str) -> Self:
        """The settings; mistakes become one readable error."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            more = f"; and {error.error_count() - _REASONS:,} more" if error.error_count() > _REASONS else ""
            reasons = "; ".join(cls._explain(item, values) for item in error.errors()[:_REASONS])
            raise UsageError(f"{source}: {reasons}{more}") from None

    @classmethod
    def _explain(cls, error: Any, values: dict[str, Any]) -> str:
        key = ".".join(str(part) for part in error["loc"])
        if error["type"] == "extra_forbidden":
            return f"there is no setting '{key}'. {cls._meant(values)._suggest(key)}"
        reason = (
            str(error["ctx"]["error"]) if error["type"] == "value_error" else error["msg"][0].lower() + error["msg"][1:]
        )
        given = "" if isinstance(error["input"], dict | Section) else f" = {error['input']!r:.{_SHOWN}}"
        return f"{key}{given}: {reason}" if key else reason

    def _suggest(self, key: str) -> str:
        names = self.setting_names()
        by_last_word = {name.partition(".")[2]: name for name in names}
        last = key.rpartition(".")[2]
        if last in by_last_word:
            return f"Did you mean '{by_last_word[last]}'?"
        return nearest(key, names) or f"Known: {', '.join(names)}"

    @classmethod
    def _meant(cls, values: dict[str, Any]) -> SettingsFile:
        """With the settings that these values might have meant."""
        return cls()


class Recipe(SettingsFile):
    """Every setting of a training."""

    model: SerializeAsAny[ModelSettings] = Field(default_factory=ModelSettings)
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    validation: ValidationSettings = Field(default_factory=ValidationSettings)

    @field_validator("model", mode="before")
    @classmethod
    def _with_own_settings(cls, values: Any) -> Any:
        """The section with the settings that its model has of its own."""
        if not isinstance(values, dict):
            return values
        try:
            name = values.get("name", DEFAULT_MODEL)
            kind = model_settings(name) if isinstance(name, str) else ModelSettings
        except UsageError:
            kind = ModelSettings  # refuses the name
        return kind.model_validate(values)

    @model_validator(mode="after")
    def _fits_together(self) -> Recipe:
        kind = model_class(self.model.name)
        if self.training.dropout and not kind.can_drop:
            raise ValueError(
                f"training.dropout does not work with {self.model.name}, whose coordinates belong together"
            )
        if self.training.unit_entities and not kind.only_direction:
            raise ValueError(
                f"training.unit_entities does not work with {self.model.name}, where an entity's length counts"
            )
        if self.training.negatives == "all" and not kind.by_dot_product:
            raise ValueError(
                f"training.negatives = all does not work with {self.model.name}, whose score is a distance"
            )
        if self.training.negatives == "all" and self.training.relation_prediction and not kind.predicts_relations():
            raise ValueError(f"training.relation_prediction does not work with {self.model.name}: set it to 0")
        return self

    @classmethod
    def parse(cls, values: dict[str, Any], source: str = "recipe") -> Recipe:
        """A recipe from nested values, as this version or an earlier one writes them."""
        return cls.checked(modernised(values), source)

    @classmethod
    def from_toml(cls, text: str, source: str = "recipe") -> Recipe:
        return cls.parse(toml_sections(text, source), source)

    @classmethod
    def load(cls, name_or_file: str | Path) -> Recipe:
        """A recipe that ships with the package, by name, or one from a TOML file."""
        return cls.from_toml(*recipe_text(name_or_file))

    def with_settings(self, settings: Mapping[str, Any] | Iterable[str]) -> Recipe:
        """A copy with other settings: a mapping such as `{"training.steps": 20000}`, or texts such as
        `training.steps=20000`. Another model brings the defaults of its own settings."""
        values, given = self.model_dump(), set()
        for key, value in setting_pairs(settings):
            section, dot, field = key.partition(".")
            if not dot or section not in values:
                raise UsageError(f"there is no setting '{key}'. {self._suggest(key)}")
            values[section][field] = value
            given.add(field)
        if values["model"]["name"] != self.model.name:
            for key in self.model.own.keys() - given:
                del values["model"][key]
        return self.checked(values, "settings")

    @classmethod
    def _meant(cls, values: dict[str, Any]) -> Recipe:
        """With the settings that these values might have meant."""
        name = (values.get("model") or {}).get("name", DEFAULT_MODEL)
        try:
            return Recipe.model_validate({"model": {"name": name}})
        except ValidationError:  # the name is wrong, or the model has settings without a default
            return Recipe()
