from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import transher
from transher.errors import InputError, UsageError
from transher.graph.graph import Graph
from transher.runs.arguments import graph_from, recipe_from
from transher.training.recipe import Recipe

TRIPLES = [(f"a{i}", "likes", f"b{i % 4}") for i in range(20)]
TINY = {"model.k": 4, "training.steps": 4, "training.batch": 8, "training.negatives": 2, "validation.every": 4}


@pytest.mark.parametrize("form", ["frame", "table", "array", "triples", "generator", "path", "graph"])
def test_a_training_takes_triples_in_any_form(form: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(TRIPLES, columns=["subject", "predicate", "object"])
    frame.to_csv(tmp_path / "triples.csv", index=False)
    forms = {
        "frame": frame,
        "table": pa.Table.from_pandas(frame),
        "array": np.array(TRIPLES),
        "triples": TRIPLES,
        "generator": (triple for triple in TRIPLES),
        "path": tmp_path / "triples.csv",
        "graph": transher.load_graph(TRIPLES),
    }
    graph = graph_from(forms[form])
    assert graph.equals(transher.load_graph(TRIPLES))


def test_a_dataframe_becomes_a_run_in_one_call(tmp_path: Path) -> None:
    frame = pd.DataFrame(TRIPLES, columns=["head", "relation", "tail"])
    run = transher.train(frame, tmp_path / "run", model="pairre", settings=TINY)
    assert run.trained("a test")[0].model.title == "PairRE"
    assert run.trained("a test")[1].training.steps == 4
    assert run.predict(head="a1", relation="likes")["head"].unique().tolist() == ["a1"]


def test_an_occupied_folder_is_refused_before_the_graph_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not empty"):
        transher.train(tmp_path / "no such graph", tmp_path)


def test_settings_are_a_mapping_or_texts(ring: Graph) -> None:
    expected = transher.default_recipe(ring, "rotate").with_settings(["training.steps=500", "training.schedule=linear"])
    for settings in (
        {"training.steps": 500, "training.schedule": "linear"},
        {"training.steps": np.int64(500), "training.schedule": "linear"},
        ["training.steps=500", "training.schedule=linear"],
        (text for text in ("training.steps=500", "training.schedule=linear")),
    ):
        assert recipe_from(ring, "rotate", settings) == expected


def test_a_recipe_is_an_object_a_name_or_a_file(ring: Graph, tmp_path: Path) -> None:
    recipe = Recipe.load("transher-fb15k-237").with_settings({"training.steps": 7})
    recipe.save(tmp_path / "mine.toml")
    assert recipe_from(ring, recipe=recipe) == recipe
    assert recipe_from(ring, recipe=tmp_path / "mine.toml") == recipe
    assert recipe_from(ring, None, {"training.steps": 7}, "transher-fb15k-237") == recipe


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "pairre", "recipe": Recipe()}, "model='pairre' contradicts recipe, which is for 'transher'"),
        (
            {"model": "pairre", "settings": {"model.name": "transe"}},
            "contradicts settings, where model.name is 'transe'",
        ),
        ({"settings": {"training.stps": 3}}, "Did you mean 'training.steps'"),
        ({"settings": {"training.steps": "many"}}, "settings: training.steps = 'many'"),
        ({"settings": ["training.steps"]}, "a setting is KEY=VALUE"),
        ({"settings": "training.steps=5"}, r"write \['training.steps=5'\]"),
        ({"recipe": "transhr-fb15k-237"}, "Did you mean 'transher-fb15k-237'"),
        ({"model": "transhr"}, "Did you mean 'transher'"),
    ],
)
def test_mistakes_are_told_in_the_words_of_python(ring: Graph, given: dict[str, object], message: str) -> None:
    with pytest.raises((UsageError, InputError), match=message) as error:
        recipe_from(ring, **given)  # type: ignore[arg-type]
    assert "--" not in str(error.value)


def test_a_search_takes_what_a_training_takes(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        [(f"e{i}", "next", f"e{(i + 1) % 60}") for i in range(60)], columns=["head", "relation", "tail"]
    )
    found = transher.search(frame, tmp_path, model="pairre", settings=TINY, space=["training.lr=0.1,0.01"], trials=1)
    assert found.recipe.model.name == "pairre"
    assert found.recipe.model.k == 4
    assert len(repr(found)) < 200
    assert "pairre; trials: 1 finished" in repr(found)
    for wrong, message in (
        ({"trials": None}, "some trials or some minutes"),
        ({"space": ["training.lr"]}, "^space training.lr: a setting is"),
        ({"space": ["training.lr=1:x"]}, "^space training.lr=1:x: it is"),
    ):
        asked = {"space": ["training.lr=0.1,0.01"], "trials": 1, **wrong}
        with pytest.raises(UsageError, match=message) as error:
            transher.search(frame, tmp_path, **asked)  # type: ignore[arg-type]
        assert "--" not in str(error.value)
