from __future__ import annotations

from pathlib import Path

import pytest
import torch

from transher.errors import InputError, UsageError
from transher.models import MODELS, build_model
from transher.training.recipe import (
    DIRECTIONS,
    DROPPABLE,
    MODEL_NAMES,
    ModelSettings,
    Recipe,
    recipe_names,
    setting_names,
)


def test_names_that_are_checked_without_torch_are_those_of_the_models() -> None:
    assert set(MODEL_NAMES) == set(MODELS)
    assert set(DROPPABLE) == {name for name, model in MODELS.items() if model.can_drop}
    row = torch.randn(1, 32)
    models = {name: build_model(ModelSettings(name=name, k=16)) for name in MODELS}
    rows = {name: row[:, : model.entity_width] for name, model in models.items()}
    assert set(DIRECTIONS) == {
        name
        for name, model in models.items()
        if torch.allclose(model.entities(rows[name]), model.entities(3 * rows[name]))
    }


def test_a_recipe_survives_a_file(tmp_path: Path) -> None:
    recipe = Recipe().with_settings(
        ["training.steps=7", "model.name=rotate", "training.lr=5e-5", "model.reciprocal=true"]
    )
    recipe.save(tmp_path / "mine.toml")
    assert Recipe.load(tmp_path / "mine.toml") == recipe
    assert recipe.training.steps == 7
    assert recipe.model.name == "rotate"
    assert recipe.model.reciprocal is True


def test_the_file_has_every_setting_written_out(tmp_path: Path) -> None:
    text = Recipe().to_toml()
    for name in setting_names():
        assert f"\n{name.partition('.')[2]} = " in text


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.step=10", "Did you mean 'training.steps'"),
        ("trainin.steps=10", "Did you mean 'training.steps'"),
        ("training.gamma=10", "Did you mean 'model.gamma'"),
        ("training.steps", "KEY=VALUE"),
        ("steps=3", "KEY=VALUE"),
        ("training.steps=many", "training.steps = 'many'"),
        ("training.steps=0", "greater than or equal to 1"),
        ("model.name=transer", "Did you mean 'transher'"),
        ("model.init=U_N", "model.init"),
        ("training.loss=squared", "self-adversarial"),
    ],
)
def test_a_wrong_setting_is_an_error_that_helps(setting: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        Recipe().with_settings([setting])
    assert message in str(error.value)


def test_settings_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(UsageError, match="dropout works with"):
        Recipe().with_settings(["model.name=rotate", "training.dropout=0.1"])
    for other in ("training.pool=independent", "training.typed=true"):
        with pytest.raises(UsageError, match="pools works with"):
            Recipe().with_settings(["training.pools=4", other])
    with pytest.raises(UsageError, match="sampled_softmax works with"):
        Recipe().with_settings(["training.sampled_softmax=true"])
    with pytest.raises(UsageError, match="multiple"):
        Recipe().with_settings(["model.name=seek", "model.k=6"])


def test_an_unknown_key_in_a_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[training]\nnegative = 3\n")
    with pytest.raises(UsageError, match=r"training\.negative'.*training\.negatives"):
        Recipe.load(tmp_path / "bad.toml")
    (tmp_path / "broken.toml").write_text("[training\n")
    with pytest.raises(InputError, match="not valid TOML"):
        Recipe.load(tmp_path / "broken.toml")
    with pytest.raises(InputError, match="no such recipe file"):
        Recipe.load(tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="no recipe 'nonsense'"):
        Recipe.load("nonsense")


def test_every_shipped_recipe_loads() -> None:
    for name in recipe_names():
        assert Recipe.load(name).training.steps > 0
