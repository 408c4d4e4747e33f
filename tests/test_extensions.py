"""Models and losses of another package, from an installed distribution and from a path, all the way through a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import transher
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.models import model_class
from transher.training.loss import find_loss
from transher.training.recipe import Recipe
from transher.training.settings import model_settings

SOURCE = Path(transher.__file__).parents[1]
MODEL = '''
import torch
from transher.models import Model, Part, ScaledL1Model


class Shift(ScaledL1Model):
    """f_r(h, t) = γ − ‖h + scale·r − t‖₁, without the native batch."""

    defaults = {"model.gamma": 7.0, "model.k": 12, "training.steps": 40, "validation.every": 20}

    def __init__(self, k: int, gamma: float, scale: float = 1.0) -> None:
        super().__init__(k, gamma)
        if scale <= 0:
            raise ValueError(f"scale = {scale} is not positive.")
        self.scale = scale

    @property
    def relation_parts(self):
        return [Part("B", self.k)]

    def query(self, anchors, relations, side):
        moved = self.scale * relations
        q = anchors + moved if side == "tail" else anchors - moved
        return q, torch.ones_like(q)

    def joined_rows(self, entities, relations, joined, share):
        return entities * share, relations * share


def squared(positive, negative, valid, weights, settings):
    return ((settings.margin - positive).square() + negative.square().mean(1)).mean()
'''
ENTRIES = (
    "[transher.models]\nshift = their_package.models:Shift\n[transher.losses]\nsquared = their_package.models:squared\n"
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with a distribution, as an installer leaves it."""
    site = tmp_path / "site"
    (site / "their_package").mkdir(parents=True)
    (site / "their_package" / "__init__.py").touch()
    (site / "their_package" / "models.py").write_text(MODEL, "utf-8")
    information = site / "their_package-1.2.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.2\n", "utf-8")
    (information / "entry_points.txt").write_text(ENTRIES, "utf-8")
    (information / "top_level.txt").write_text("their_package\n", "utf-8")
    (information / "RECORD").write_text("their_package/__init__.py,,\n", "utf-8")
    return site


@pytest.fixture
def importable(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution in this process, and no trace of it afterwards."""
    monkeypatch.syspath_prepend(installed)
    yield
    for function in (model_class, model_settings, find_loss):
        function.cache_clear()
    for name in ("their_package", "their_package.models"):
        sys.modules.pop(name, None)


def call(folder: Path, *arguments: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(part) for part in (SOURCE, site) if part is not None)
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


COMMANDS = """
train world --out one --model shift --set training.loss=squared --set model.scale=0.5 --seed 1
train world --out two --model shift --set training.loss=squared --set model.scale=0.5 --seed 2
evaluate one
predict one --head Germany --relation borders
explain one --head Germany --relation borders --tail Poland
complete one --relation borders --best 3 --out facts.tsv
export one --to parquet --out exported
join one two --out both
"""
RUN_ALL = f"""
import json, shlex, transher
from click.testing import CliRunner
from transher.cli.main import main
from transher.models.catalogue import provenance

for line in {COMMANDS!r}.split("\\n"):
    if line:
        CliRunner().invoke(main, shlex.split(line), catch_exceptions=False, standalone_mode=False)
run = transher.load("both")
model = run.scorer.model
by_path = provenance("their_package.models:Shift")
print(json.dumps([run.recipe.model_dump(), model.title, model.scale, model.k, provenance("shift"), by_path]))
"""


def test_a_model_and_a_loss_of_another_package_go_all_the_way(installed: Path, tmp_path: Path) -> None:
    done = call(tmp_path, "-c", RUN_ALL, site=installed)
    assert done.returncode == 0, done.stderr
    recipe, title, scale, k, published, by_path = json.loads(done.stdout.splitlines()[-1])
    assert (title, scale, k) == ("Shift", 0.5, 24)
    assert recipe["model"] | {"name": "shift", "gamma": 7.0, "k": 24, "scale": 0.5} == recipe["model"]
    assert (recipe["training"]["loss"], recipe["training"]["steps"]) == ("squared", 40)
    assert recipe["training"]["gradient_share"] == 0.1  # as its family has it
    assert len((tmp_path / "facts.tsv").read_text("utf-8").splitlines()) == 4
    origin = {"module": "their_package.models", "model": "Shift", "distribution": "their-package", "version": "1.2"}
    assert published == {"name": "shift", **origin}
    assert by_path == {"name": "their_package.models:Shift", **origin}

    gone = call(tmp_path, "-m", "transher", "predict", "one", "--head", "Germany", "--relation", "borders")
    assert gone.returncode == 2
    assert "one/recipe.toml: model.name = 'shift': there is no model 'shift'" in " ".join(gone.stderr.split())
    text = (tmp_path / "one" / "recipe.toml").read_text("utf-8")
    with pytest.raises(UsageError, match=r"there is no module 'their_package'\. Install the package"):
        Recipe.from_toml(text.replace('"shift"', '"their_package.models:Shift"'))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.scale=-1", r"scale = -1\.0 is not positive"),
        ("model.scale=wide", r"model\.scale = 'wide'"),
        ("model.scales=1", r"Did you mean 'model\.scale'"),
        ("model.name=shfit", "Did you mean 'shift'"),
        ("training.unit_entities=true", "does not work with shift"),
        ("training.loss=squarred", "Did you mean 'squared'"),
        ("training.loss=their_package.models:__doc__", "is not a loss"),
    ],
)
def test_wrong_settings_of_such_a_model_are_errors_that_help(importable: None, setting: str, message: str) -> None:
    recipe = Recipe().with_settings(["model.name=shift"])
    with pytest.raises(UsageError, match=message):
        recipe.with_settings([setting])


def test_code_that_fails_to_import_is_named(installed: Path, tmp_path: Path) -> None:
    (installed / "their_package" / "models.py").write_text("1 / 0\n", "utf-8")
    done = call(tmp_path, "-m", "transher", "train", "world", "--out", "run", "--model", "shift", site=installed)
    assert done.returncode == 2
    assert "'shift' cannot be imported (ZeroDivisionError" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("module", "working"), [("planted", "run"), ("run.planted", "."), ("deep.run.planted", "..")])
def test_nothing_is_imported_from_a_run(ring: Graph, tmp_path: Path, module: str, working: str) -> None:
    """`python -m` has the working folder on its path."""
    folder = tmp_path / "deep"
    run = folder / "run"
    transher.train(ring, run, recipe=Recipe().with_settings(["model.k=4", "training.steps=2"]))
    recipe = (run / "recipe.toml").read_text("utf-8").replace('name = "transher"', f'name = "{module}:Shift"')
    (run / "recipe.toml").write_text(recipe, "utf-8")
    (run / "manifest.json").unlink()
    (run / "planted.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w').close()\n" + MODEL, "utf-8")
    done = call(folder / working, "-m", "transher", "predict", str(run), "--head", "e000", "--relation", "r0")
    assert done.returncode == 2
    assert "nothing is imported from a run" in " ".join(done.stderr.split())
    assert not (tmp_path / "executed").exists()
