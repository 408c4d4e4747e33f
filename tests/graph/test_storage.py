import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from transher.errors import InputError
from transher.graph import Candidates, Graph, Vocabulary, load_graph_folder, save_graph

PLAIN = Graph(
    name="plain",
    entities=Vocabulary("entity", pa.array(["a", "b", "c"])),
    relations=Vocabulary("relation", pa.array(["r"])),
    train=np.array([[0, 0, 1], [1, 0, 2]], dtype=np.int32),
    valid=np.array([[2, 0, 0]], dtype=np.int32),
    test=np.empty((0, 3), dtype=np.int32),
)
FULL = dataclasses.replace(
    PLAIN,
    name="Größe ∘ 図",
    entities=Vocabulary(
        "entity", PLAIN.entities.identifiers, pa.array(["Ünï", None, "図\n\t"]), pa.array([None, "d", ""])
    ),
    relations=Vocabulary("relation", pa.array(["r"]), pa.array(["is"])),
    train_weights=np.array([0.5, 3], dtype=np.float32),
    entity_types=np.array([1, 0, 1], dtype=np.int32),
    type_names=("drug", "protein", "unused"),
    candidates={
        "valid": Candidates(np.array([[1, 2, 1]], dtype=np.int32), np.array([[0, 0, 2]], dtype=np.int32)),
        "test": Candidates(np.empty((0, 3), dtype=np.int32), np.empty((0, 3), dtype=np.int32)),
    },
)


def assert_same(one: Graph, other: Graph) -> None:
    assert (one.name, one.type_names) == (other.name, other.type_names)
    assert one.entities == other.entities
    assert one.relations == other.relations
    for field in ("train", "valid", "test", "train_weights", "entity_types"):
        expected, found = getattr(one, field), getattr(other, field)
        assert (expected is None) == (found is None)
        if expected is not None:
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape
            assert (found == expected).all()
    assert one.candidates.keys() == other.candidates.keys()
    for split, supplied in one.candidates.items():
        for side in ("head", "tail"):
            assert np.array_equal(getattr(supplied, side), getattr(other.candidates[split], side))
            assert getattr(other.candidates[split], side).shape == getattr(supplied, side).shape


@pytest.mark.parametrize("graph", [PLAIN, FULL], ids=["plain", "full"])
def test_a_graph_comes_back_as_it_was(tmp_path: Path, graph: Graph) -> None:
    save_graph(graph, tmp_path / "graph")
    assert_same(graph, load_graph_folder(tmp_path / "graph"))


def test_a_graph_takes_the_place_of_another_whole(tmp_path: Path) -> None:
    save_graph(FULL, tmp_path)
    save_graph(PLAIN, tmp_path)
    assert_same(PLAIN, load_graph_folder(tmp_path))


def test_nothing_but_parquet_is_left_behind(tmp_path: Path) -> None:
    save_graph(FULL, tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".parquet"}


@pytest.mark.parametrize("name", ["entities", "train", "valid_candidates"])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, name: str) -> None:
    save_graph(FULL, tmp_path)
    path = tmp_path / f"{name}.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=f"{name}.parquet: cannot be read"):
        load_graph_folder(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    save_graph(PLAIN, tmp_path)
    (tmp_path / "relations.parquet").unlink()
    with pytest.raises(InputError, match=r"relations.parquet: there is no such file"):
        load_graph_folder(tmp_path)


def test_ids_that_the_vocabulary_does_not_have_are_refused(tmp_path: Path) -> None:
    save_graph(dataclasses.replace(PLAIN, train=np.array([[0, 0, 3]], dtype=np.int32)), tmp_path)
    with pytest.raises(InputError, match=r"train.parquet: a tail is not an id below 3"):
        load_graph_folder(tmp_path)
