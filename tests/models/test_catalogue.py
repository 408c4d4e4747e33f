from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import transher
from transher.errors import UsageError
from transher.models import MODELS, DotModel, Model, Part, Query, build_model, model_class, model_names
from transher.models.catalogue import BUILT_IN, DEFAULT_MODEL, own_settings, provenance
from transher.training.settings import ModelSettings

SOURCE = Path(transher.__file__).parent
# The package has the name of its default model, so that its own name proves nothing.
NAMES = set(BUILT_IN) - {DEFAULT_MODEL}
MAY_NAME_MODELS = ("models", "recipes", "analysis/experiments.py")  # the last: which models the paper's tables have


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_other_file_names_a_model(path: Path) -> None:
    if path.relative_to(SOURCE).as_posix().startswith(MAY_NAME_MODELS):
        return
    tree = ast.parse(path.read_text("utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert not [text for text in texts if text in NAMES or text.partition("model.name=")[2] in NAMES]
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    operands = [part for node in compared for part in (node.left, *node.comparators)]
    assert not [part for part in operands if isinstance(part, ast.Constant) and part.value == DEFAULT_MODEL]


def test_the_catalogue_needs_no_torch() -> None:
    code = "import sys; from transher.models.catalogue import model_names; model_names(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_name_leads_to_its_model(name: str) -> None:
    model = build_model(ModelSettings(name=name, k=16))
    assert type(model) is MODELS[name] is model_class(name)
    assert provenance(name)["module"] == type(model).__module__
    assert provenance(name)["model"] == type(model).__name__


@pytest.mark.parametrize("name", BUILT_IN)
def test_only_where_a_class_says_so_the_length_of_a_row_does_not_count(name: str) -> None:
    import torch

    model = build_model(ModelSettings(name=name, k=16))
    row = torch.randn(1, model.entity_width)
    assert model.only_direction == torch.allclose(model.entities(row), model.entities(3 * row))


class Plain(DotModel):
    """A model from outside, with settings of its own."""

    def __init__(self, k: int, gamma: float, power: int = 2, *, label: str = "a") -> None:
        super().__init__(k, gamma)

    @property
    def relation_parts(self) -> list[Part]:
        return [Part("G", self.k)]

    def query(self, anchors: object, relations: object, side: object) -> Query:
        raise NotImplementedError


class Lacking(Model):
    """A model that does not say how it scores."""


def test_a_model_is_titled_after_its_class_unless_it_says_otherwise() -> None:
    assert Plain.title == "Plain"
    assert MODELS["transe-l2"].title == "TransE (L2)"


def test_the_constructor_declares_the_settings() -> None:
    assert own_settings(Plain) == {"power": (int, 2), "label": (str, "a")}
    assert list(own_settings(MODELS["seek"])) == ["segments"]
    assert own_settings(MODELS["transher"]) == {}


def test_a_class_is_found_by_its_path() -> None:
    assert model_class(f"{__name__}:Plain") is Plain


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transer", "there is no model 'transer'. Did you mean 'transher'"),
        ("nonsense", f"Known: {', '.join(BUILT_IN)}; or name one of your own as package.module:name."),
        ("no_such_package.models:Mine", "there is no module 'no_such_package'. Install the package"),
        ("my-file.py:Mine", "there is no model 'my-file.py:Mine'"),
        (f"{__name__}:Plian", "has no model 'Plian'. Did you mean 'Plain'"),
        (f"{__name__}:SOURCE", "is not a model: it must be a class that inherits from transher.models.Model"),
        (f"{__name__}:Path", "is not a model"),
        (f"{__name__}:Lacking", "is not complete: it does not define cross, pairs, query, relation_parts"),
    ],
)
def test_what_is_no_model_is_an_error_that_helps(name: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        model_class(name)
    assert message in str(error.value)


def test_names_of_models_begin_with_the_packages_own() -> None:
    assert model_names()[: len(BUILT_IN)] == list(BUILT_IN)
