from __future__ import annotations

from pathlib import Path

import pytest

from transher.errors import InputError, UsageError
from transher.training.recipe import Recipe
from transher.training.recipe_files import recipe_names


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
    for name in Recipe().setting_names():
        assert f"\n{name.partition('.')[2]} = " in text


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.step=10", "Did you mean 'training.steps'"),
        ("trainin.steps=10", "Did you mean 'training.steps'"),
        ("training.gamma=10", "Did you mean 'model.gamma'"),
        ("training.steps", "KEY=VALUE"),
        ("steps=3", "Did you mean 'training.steps'"),
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
    with pytest.raises(UsageError, match="dropout does not work with rotate"):
        Recipe().with_settings(["model.name=rotate", "training.dropout=0.1"])
    for setting in ("training.unit_entities=true", "model.start_at_margin=true"):
        with pytest.raises(UsageError, match="does not work with transe"):
            Recipe().with_settings(["model.name=transe", setting])
    with pytest.raises(UsageError, match=r"training\.pools = 1 or each works with training\.typed"):
        Recipe().with_settings(["training.pools=4", "training.typed=true"])
    with pytest.raises(UsageError, match="sampled_softmax works with"):
        Recipe().with_settings(["training.sampled_softmax=true"])
    with pytest.raises(UsageError, match="multiple"):
        Recipe().with_settings(["model.name=seek", "model.k=6"])


def test_a_model_has_settings_of_its_own_and_no_other_has_them() -> None:
    seek = Recipe().with_settings(["model.name=seek", "model.segments=8"])
    assert seek.model.own == {"segments": 8}
    assert Recipe.from_toml(seek.to_toml()) == seek
    assert "model.segments" in seek.setting_names()
    assert "segments" not in Recipe().to_toml()
    assert seek.with_settings(["model.name=distmult"]).model.own == {}
    for setting, message in (
        ("model.segments=0", "greater than or equal to 1"),
        ("model.segment=4", "Did you mean 'model.segments'"),
    ):
        with pytest.raises(UsageError, match=message):
            seek.with_settings([setting])
    with pytest.raises(UsageError, match=r"no setting 'model\.segments'"):
        Recipe().with_settings(["model.segments=8"])


@pytest.mark.parametrize(
    ("old", "pools"),
    [
        ('pool = "shared"', 1),
        ('pool = "shared"\npools = 16', 16),
        ('pool = "independent"', "each"),
        ('pool = "independent"\npools = 1', "each"),
        ('pools = "each"', "each"),
        ("pools = 16", 16),
    ],
)
def test_recipes_of_the_first_version_still_read(old: str, pools: int | str) -> None:
    text = f'[model]\nname = "rotate"\nsegments = 4\n[training]\n{old}\n'
    assert Recipe.from_toml(text).training.pools == pools
    assert Recipe.from_toml(text).model.own == {}


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "all", "true"])
def test_pools_are_a_number_or_each(value: str) -> None:
    with pytest.raises(UsageError, match="whole number greater than or equal to 1, or each"):
        Recipe().with_settings([f"training.pools={value}"])


def test_the_old_name_of_pools_is_answered_with_the_new_one() -> None:
    with pytest.raises(UsageError, match=r"Did you mean 'training\.pools'"):
        Recipe().with_settings(["training.pool=independent"])


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
