from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import transher
from transher.errors import InputError
from transher.files import read_safetensors, read_safetensors_metadata, write_safetensors
from transher.graph.graph import Graph
from transher.graph.growing import without
from transher.graph.preparing import prepare
from transher.serving.explorer import Explorer
from transher.training.recipe import Recipe

QUICK = ["training.steps=20", "training.batch=32", "training.negatives=8", "model.k=8", "training.parts=3"]
RECIPE = Recipe().with_settings(QUICK)


@pytest.fixture(scope="module")
def in_parts(tmp_path_factory: pytest.TempPathFactory, ring: Graph) -> transher.Run:
    return transher.train(ring, tmp_path_factory.mktemp("sharded") / "run", recipe=RECIPE, sharded=True)


def test_a_run_in_parts_answers_as_a_whole_one(in_parts: transher.Run, ring: Graph, tmp_path: Path) -> None:
    whole = transher.train(ring, tmp_path / "run", recipe=RECIPE)
    assert (in_parts.folder / "model.json").is_file()
    assert (whole.folder / "model.safetensors").is_file()
    head, relation = ring.entities.identifiers[0].as_py(), ring.relations.identifiers[0].as_py()
    answers = [run.predict(head=head, relation=relation, top=5)["tail"].tolist() for run in (in_parts, whole)]
    assert answers[0] == answers[1]
    assert in_parts.title == whole.title
    assert [Explorer("run", run).view.dimension for run in (in_parts, whole)] == [8, 8]


@pytest.mark.parametrize(
    "changed",
    [{"folder": "../elsewhere"}, {"files": {}}, {"files": {"part-0001.safetensors": "0"}}, {"format": "9"}],
    ids=["another folder", "no parts", "a part is missing", "another format"],
)
def test_a_pointer_that_was_changed_is_refused(in_parts: transher.Run, tmp_path: Path, changed: object) -> None:
    copy = in_parts.save(tmp_path / "copy").folder
    pointer = copy / "model.json"
    assert isinstance(changed, dict)
    pointer.write_text(json.dumps(json.loads(pointer.read_text()) | changed))
    with pytest.raises(InputError, match=r"model\.json"):
        transher.load(copy)


def parts(folder: Path) -> list[Path]:
    return sorted((folder / "model").glob("step-*/part-*.safetensors"))


def test_what_happens_to_a_part_later_changes_no_answer(in_parts: transher.Run, ring: Graph, tmp_path: Path) -> None:
    copy = in_parts.save(tmp_path / "copy")
    asked = {"head": ring.entities.identifiers[0].as_py(), "relation": ring.relations.identifiers[0].as_py()}
    before = copy.predict(**asked)["score"].tolist()
    for path in parts(copy.folder):
        os.truncate(path, 200)  # a map of the file would end the process
    assert copy.predict(**asked)["score"].tolist() == before


@pytest.mark.parametrize("fits", [True, False], ids=["in memory", "mapped"])
def test_a_part_that_was_changed_is_refused(
    in_parts: transher.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fits: bool
) -> None:
    copy = in_parts.save(tmp_path / "copy").folder
    monkeypatch.setattr("transher.runs.sharded._fits", lambda *_: fits)
    assert transher.load(copy).scorer.entity_count == in_parts.scorer.entity_count
    changed = parts(copy)[1]
    data = bytearray(changed.read_bytes())
    data[-1] ^= 1
    changed.write_bytes(data)
    with pytest.raises(InputError, match=rf"{changed.name}.* hash "):
        transher.load(copy)


def test_a_part_with_numbers_that_are_not_finite_is_refused(in_parts: transher.Run, tmp_path: Path) -> None:
    copy = in_parts.save(tmp_path / "copy").folder
    pointer = json.loads((copy / "model.json").read_text())
    changed = parts(copy)[1]
    arrays, said = read_safetensors(changed)
    next(iter(arrays.values()))[0] = np.nan
    write_safetensors(changed, arrays, said)
    pointer["files"][changed.name] = read_safetensors_metadata(changed)["xxh3_128"]
    (copy / "model.json").write_text(json.dumps(pointer))
    (copy / "manifest.json").unlink()  # it has the pointer's hash
    with pytest.raises(InputError, match="not finite"):
        transher.load(copy)


def test_a_prepared_graph_that_lost_triples_is_not_saved_as_it_was(tmp_path: Path) -> None:
    lines = [f"e{i}\tr{i % 2}\te{(i + 1) % 20}\n" for i in range(20)]
    (tmp_path / "graph.tsv").write_text("".join(lines))
    prepare([tmp_path / "graph.tsv"], tmp_path / "prepared", held_out=2)
    graph = transher.load_graph(tmp_path / "prepared")
    assert without(graph, graph.train[:1]).prepared is None
