"""The recipe of a choice: how long models are tried, trained and blended, and from which seed. What it comes to is in
the recipes of the members that it leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.training.recipe import SettingsFile
from transher.training.recipe_files import setting_pairs
from transher.training.settings import Section

LEAST_FACTS = 30  # validation triples to choose by
_MOST_TRIPLES = 3_000_000  # beyond, a single model takes hours as it is
_MINUTES, _REFERENCE, _GROWTH = 1.5, 10_000, 0.55  # for so many triples; how it grows with them


class ChoiceModel(Section):
    """The kind of scorer."""

    name: Literal["choice"] = Field("choice", description="what the run answers by: a blend, once it is chosen")


class ChoiceSettings(Section):
    """What a choice may cost."""

    minutes: float = Field(10.0, gt=0, description="wall-clock minutes for everything but the test, on this machine")
    seed: int = Field(0, ge=0, description="seed of every random draw")


class ChoiceRecipe(SettingsFile):
    """Every setting of a choice."""

    model: ChoiceModel = Field(default_factory=ChoiceModel)
    choice: ChoiceSettings = Field(default_factory=ChoiceSettings)

    def with_settings(self, settings: Mapping[str, Any] | Iterable[str]) -> ChoiceRecipe:
        """A copy with other settings, as `Recipe.with_settings`. Those of a model need a model."""
        values = self.model_dump()
        for key, value in setting_pairs(settings):
            section, dot, field = key.partition(".")
            if not dot or section not in values or field not in values[section]:
                raise UsageError(f"there is no setting '{key}' of a choice. Name a model to set it: --model transher.")
            values[section][field] = value
        return self.checked(values, "settings")


def can_choose(graph: Graph) -> bool:
    """Whether models can be compared on a graph in the time that people wait."""
    return len(graph.valid) >= LEAST_FACTS and len(graph.train) <= _MOST_TRIPLES and not graph.candidates


def default_minutes(graph: Graph) -> float:
    """A minute or two for ten thousand triples, some ten for FB15k-237."""
    return float(round(_MINUTES * (max(len(graph.train), 500) / _REFERENCE) ** _GROWTH, 1))
