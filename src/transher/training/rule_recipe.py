"""The recipe of rules: how long they are mined, and from which seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import Field, field_validator

from transher.errors import UsageError
from transher.models.catalogue import BLEND, CHOICE, RULES
from transher.training.blend_recipe import BlendRecipe
from transher.training.choice_recipe import ChoiceRecipe
from transher.training.recipe import Recipe, SettingsFile
from transher.training.recipe_files import recipe_text, setting_pairs, toml_sections
from transher.training.settings import Section


class RuleSettings(Section):
    """The kind of scorer."""

    name: str = Field(RULES, description="what the run answers by")

    @field_validator("name")
    @classmethod
    def _is_rules(cls, name: str) -> str:
        if name != RULES:
            raise ValueError(f"a recipe of rules takes {RULES}")
        return name


class MiningSettings(Section):
    """How rules are mined."""

    minutes: float = Field(10.0, gt=0, description="wall-clock minutes of mining, all sessions together")
    seed: int = Field(0, ge=0, description="seed of every random draw")


class RuleRecipe(SettingsFile):
    """Every setting of a mining."""

    model: RuleSettings = Field(default_factory=RuleSettings)
    mining: MiningSettings = Field(default_factory=MiningSettings)

    def with_settings(self, settings: Mapping[str, Any] | Iterable[str]) -> RuleRecipe:
        """A copy with other settings, as `Recipe.with_settings`."""
        values = self.model_dump()
        for key, value in setting_pairs(settings):
            section, dot, field = key.partition(".")
            if not dot or section not in values:
                raise UsageError(f"there is no setting '{key}' of rules. {self._suggest(key)}")
            values[section][field] = value
        return self.checked(values, "settings")


AnyRecipe: TypeAlias = Recipe | RuleRecipe | BlendRecipe | ChoiceRecipe


def load_recipe(name_or_file: str | Path) -> AnyRecipe:
    """A recipe of whichever kind, by the name of a shipped one or from a TOML file."""
    text, source = recipe_text(name_or_file)
    values = toml_sections(text, source)
    model = values.get("model")
    name = model.get("name") if isinstance(model, dict) else None
    if name == RULES:
        return RuleRecipe.checked(values, source)
    if name == BLEND:
        return BlendRecipe.checked(values, source)
    if name == CHOICE:
        return ChoiceRecipe.checked(values, source)
    return Recipe.parse(values, source)
