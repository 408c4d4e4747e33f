from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import call

from transher.models.catalogue import BUILT_IN
from transher.training.described import describe_settings
from transher.training.recipe import Recipe

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_every_setting_of_every_model_is_described() -> None:
    described = {setting.name: setting for setting in describe_settings()}
    for model in BUILT_IN:
        recipe = Recipe.parse({"model": {"name": model}})
        for name in recipe.setting_names():
            assert described[name].meaning
            assert described[name].allowed
            assert not described[name].models or model in described[name].models
    assert described["model.segments"].models == ("seek",)


def test_defaults_and_ranges_are_those_of_the_recipe() -> None:
    described = {setting.name: setting for setting in describe_settings()}
    recipe = Recipe()
    for name in recipe.setting_names():
        section, _, key = name.partition(".")
        assert described[name].default == getattr(getattr(recipe, section), key)
    assert described["training.dropout"].allowed == "a number ≥ 0 and < 1"
    assert described["training.schedule"].allowed == "constant, step, linear, cosine, plateau"
    assert described["training.filter_known"].allowed == "true, false"


def test_a_section_or_one_setting_is_shown() -> None:
    told = call("settings", "validation").stdout
    assert "patience" in told
    assert "negatives" not in told
    assert "learning rate" in call("settings", "training.lr").stdout
    assert [row["name"] for row in json.loads(call("settings", "segments", "--json").stdout)] == ["model.segments"]
    refused = call("settings", "xyz")
    assert refused.exit_code == 2
    assert "Sections: model, training, validation." in refused.stderr


def test_the_page_of_the_documentation_is_as_generated() -> None:
    assert PAGE.read_text("utf-8") == call("settings", "--markdown").stdout, (
        "write it again: transher settings --markdown > docs/settings.md"
    )


def test_training_names_where_settings_are_listed() -> None:
    assert "transher settings" in call("train", "--help").stdout
