"""The recipe of a blend: of how many runs it is made. All else is in the recipes of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, field_validator

from transher.errors import UsageError
from transher.models.catalogue import BLEND
from transher.training.recipe import SettingsFile
from transher.training.recipe_files import setting_pairs
from transher.training.settings import Section


class BlendModel(Section):
    """The kind of scorer."""

    name: str = Field(BLEND, description="what the run answers by")

    @field_validator("name")
    @classmethod
    def _is_blend(cls, name: str) -> str:
        if name != BLEND:
            raise ValueError(f"a recipe of a blend takes {BLEND}")
        return name


class BlendSettings(Section):
    """What is blended."""

    members: int = Field(2, ge=2, le=1000, description="how many runs, each in a folder of its own")


class BlendRecipe(SettingsFile):
    """Every setting of a blend."""

    model: BlendModel = Field(default_factory=BlendModel)
    blend: BlendSettings = Field(default_factory=BlendSettings)

    def with_settings(self, settings: Mapping[str, Any] | Iterable[str]) -> BlendRecipe:
        """As `Recipe.with_settings`; there is nothing to change."""
        for key, _ in setting_pairs(settings):
            raise UsageError(f"a blend has no setting '{key}': change the runs that it is made of.")
        return self
