from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import load_file

import transher
from transher.cli.main import main
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.runs.export import FORMATS, export
from transher.training.recipe import Recipe

QUICK = Recipe().with_settings(
    ["model.k=8", "training.steps=40", "training.batch=32", "training.negatives=8", "validation.every=40"]
)


@pytest.fixture(scope="module")
def run(ring: Graph, tmp_path_factory: pytest.TempPathFactory) -> transher.Run:
    return transher.train(ring, tmp_path_factory.mktemp("runs") / "ring", recipe=QUICK)


def rows(run: transher.Run) -> np.ndarray[Any, np.dtype[np.float32]]:
    return run.trained("a test")[0].entity_weights.numpy()


def test_parquet_has_embeddings_triples_and_statistics(run: transher.Run, tmp_path: Path) -> None:
    export(run, "parquet", tmp_path / "out")
    entities = pd.read_parquet(tmp_path / "out" / "entities.parquet")
    assert entities["identifier"].tolist() == run.graph.entities.identifiers.to_pylist()
    assert np.array_equal(np.stack(entities["embedding"].tolist()), rows(run))
    triples = pd.read_parquet(tmp_path / "out" / "triples.parquet")
    assert triples["split"].value_counts().to_dict() == {
        "train": len(run.graph.train),
        "valid": len(run.graph.valid),
        "test": len(run.graph.test),
    }
    statistics = pd.read_parquet(tmp_path / "out" / "relation_statistics.parquet")
    assert statistics["triples"].sum() == len(triples)
    assert statistics["type"].tolist() == ["1-to-1"] * 3
    assert pd.read_parquet(tmp_path / "out" / "entity_statistics.parquet")["as_head"].sum() == len(triples)


def test_numpy_arrays_load_without_pickle(run: transher.Run, tmp_path: Path) -> None:
    export(run, "numpy", tmp_path / "out")
    assert np.array_equal(np.load(tmp_path / "out" / "entities.npy", allow_pickle=False), rows(run))
    assert pd.read_csv(tmp_path / "out" / "relations.tsv", sep="\t")["identifier"].tolist() == ["r0", "r1", "r2"]


def test_word2vec_text_says_its_size_and_has_a_line_a_word(run: transher.Run, tmp_path: Path) -> None:
    export(run, "word2vec", tmp_path / "out")
    first, *lines = (tmp_path / "out" / "entities.txt").read_text().splitlines()
    assert first == "60 8"
    word, *numbers = lines[7].split(" ")
    assert word == "e007"
    assert np.allclose(np.array(numbers, dtype=float), rows(run)[7], atol=1e-7)


def test_the_projector_finds_its_files(run: transher.Run, tmp_path: Path) -> None:
    export(run, "tensorboard", tmp_path / "out")
    config = (tmp_path / "out" / "projector_config.pbtxt").read_text()
    for name in ("entities.tsv", "entities_labels.tsv", "relations.tsv", "relations_labels.tsv"):
        assert f'"{name}"' in config
        assert (tmp_path / "out" / name).is_file()
    vectors = np.loadtxt(tmp_path / "out" / "entities.tsv", delimiter="\t")
    assert np.allclose(vectors, rows(run), atol=1e-7)
    assert len((tmp_path / "out" / "entities_labels.tsv").read_text().splitlines()) == 61


def test_safetensors_has_both_tables(run: transher.Run, tmp_path: Path) -> None:
    export(run, "safetensors", tmp_path / "out")
    tables = load_file(tmp_path / "out" / "embeddings.safetensors")
    assert np.array_equal(tables["entities"], rows(run))
    assert np.array_equal(tables["relations"], run.trained("a test")[0].relation_weights.numpy())


def test_answers_are_those_of_predict(run: transher.Run, tmp_path: Path) -> None:
    export(run, "parquet", tmp_path / "out", answers=4)
    answers = pq.read_table(tmp_path / "out" / "answers.parquet").to_pandas()
    assert len(answers) == 2 * 4 * len(run.graph.test)
    mine = answers[(answers["test_triple"] == 1) & (answers["side"] == "tail")]
    head, relation, tail = (
        f"{letter}{id:0{width}}" for letter, id, width in zip("ere", run.graph.test[1], (3, 1, 3), strict=True)
    )
    expected = run.predict(head=head, relation=relation, top=4)
    assert mine["tail"].tolist() == expected["tail"].tolist()
    assert mine["probability"].tolist() == pytest.approx(expected["probability"].tolist())
    assert mine["known"].tolist() == expected["known"].tolist()
    assert mine["held_out"].tolist() == [answer == tail for answer in expected["tail"]]


def test_rows_of_reciprocal_relations_are_marked(ring: Graph, tmp_path: Path) -> None:
    run = transher.train(ring, tmp_path / "run", recipe=QUICK.with_settings(["model.reciprocal=true"]))
    export(run, "numpy", tmp_path / "out")
    assert len(np.load(tmp_path / "out" / "relations.npy")) == 6
    names = pd.read_csv(tmp_path / "out" / "relations.tsv", sep="\t")["identifier"].tolist()
    assert names == ["r0", "r1", "r2", "r0⁻¹", "r1⁻¹", "r2⁻¹"]


@pytest.mark.parametrize("to", FORMATS)
def test_the_command_names_what_it_wrote_and_writes_over_nothing(run: transher.Run, tmp_path: Path, to: str) -> None:
    arguments = ["export", str(run.folder), "--to", to, "--out", str(tmp_path / "out"), "--json"]
    files = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert all(Path(file).is_file() for file in files)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(UsageError, match="already there"):
        export(run, "numpy", tmp_path / "out")
    for file in files:
        assert Path(file).read_bytes()[:1] != b"\x80"
    assert torch.equal(
        run.trained("a test")[0].entity_weights, transher.load(run.folder).trained("a test")[0].entity_weights
    )
