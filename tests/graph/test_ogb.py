"""OGB's two knowledge graphs, in the layout of the `ogb` package, which opens the same files in these tests."""

from __future__ import annotations

import functools
import gzip
import os
import random
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from transher.errors import InputError
from transher.graph.benchmarks import locate, open_benchmark
from transher.graph.graph import SPLITS, Graph
from transher.graph.ogb import read_ogb

SAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "make_ogb_sample.py"))
NAMES = ["ogbl-biokg", "ogbl-wikikg2"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ogb")
    for name in NAMES:
        SAMPLE["WRITERS"][name](folder)
    return folder


@pytest.fixture
def own_root(tmp_path: Path) -> Path:
    for name in NAMES:
        SAMPLE["WRITERS"][name](tmp_path)
    return tmp_path


def folder_of(root: Path, name: str) -> Path:
    return root / name.replace("-", "_")


def read(root: Path, name: str) -> Graph:
    return read_ogb(folder_of(root, name), name=name)


def open_with_ogb(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package's own dataset. It calls torch.load in the way of torch before 2.6, so that way is given to it."""
    monkeypatch.setenv("OUTDATED_IGNORE", "1")
    linkproppred = pytest.importorskip("ogb.linkproppred")
    monkeypatch.setattr(torch, "load", functools.partial(torch.load, weights_only=False))
    return linkproppred.LinkPropPredDataset(name, root=str(root))


@pytest.mark.parametrize("name", NAMES)
def test_the_ogb_package_reads_the_same_from_the_same_files(
    root: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = read(root, name)
    dataset = open_with_ogb(root, name, monkeypatch)
    theirs = dataset.get_edge_split()
    if name == "ogbl-biokg":
        sizes = dataset[0]["num_nodes_dict"]
        start = dict(zip(sorted(sizes), np.cumsum([0, *(sizes[t] for t in sorted(sizes))]), strict=False))
        assert len(graph.entities) == sum(sizes.values())
    else:
        assert len(graph.entities) == dataset[0]["num_nodes"]
    for split in SPLITS:
        part = theirs[split]
        typed = name == "ogbl-biokg"
        heads = np.array([start[t] for t in part["head_type"]]) if typed else np.zeros(len(part["head"]), int)
        tails = np.array([start[t] for t in part["tail_type"]]) if typed else np.zeros(len(part["tail"]), int)
        expected = np.stack([part["head"] + heads, part["relation"], part["tail"] + tails], axis=1)
        np.testing.assert_array_equal(graph.split(split), expected)
        if split != "train":
            np.testing.assert_array_equal(graph.candidates[split].head, part["head_neg"] + heads[:, None])
            np.testing.assert_array_equal(graph.candidates[split].tail, part["tail_neg"] + tails[:, None])
    assert set(graph.candidates) == {"valid", "test"}


def test_ogbs_graphs_are_checked_like_all_others_and_stay_as_they_are(own_root: Path) -> None:
    file = own_root / "ogbl_wikikg2" / "split" / "time"
    parts = {split: torch.load(file / f"{split}.pt", weights_only=False) for split in SPLITS}
    train, test = parts["train"], parts["test"]
    for key in ("head", "relation", "tail"):
        train[key][1] = train[key][0]  # a duplicate
        test[key][0] = train[key][0]  # in two splits
    unseen = int(test["head"][1])
    for split in SPLITS:
        part = parts[split]
        for key in ("head", "tail"):
            if split == "train":
                part[key][part[key] == unseen] = (unseen + 1) % 200
        torch.save(part, file / f"{split}.pt", pickle_protocol=4)
    graph = read(own_root, "ogbl-wikikg2")
    report = graph.load_report
    assert report is not None
    assert report.duplicates["train"] >= 1
    assert len(graph.train) == len(train["head"])
    assert report.overlaps["train/test"] >= 1
    assert report.unseen.entities >= 1
    assert report.unseen.triples["test"] >= 1
    assert any("triples that repeat others stay in train" in line for line in report.lines())


class Raising:
    def __reduce__(self) -> tuple[Any, ...]:
        return np.dtype, ("no such type",)


@pytest.mark.parametrize("content", [Raising(), {"head": Raising()}, [1], {"head": 7}, {"head": [1], "tail": None}])
def test_a_pickle_that_raises_is_an_error_for_people(own_root: Path, content: object) -> None:
    torch.save(content, own_root / "ogbl_wikikg2" / "split" / "time" / "train.pt")
    with pytest.raises(InputError, match="ogbl_wikikg2"):
        read(own_root, "ogbl-wikikg2")


def test_a_damaged_split_is_a_graph_or_an_error_for_people(own_root: Path) -> None:
    for file in (
        own_root / "ogbl_wikikg2" / "split" / "time" / "train.pt",
        *(own_root / "ogbl_wikikg2").glob("mapping/*"),
    ):
        whole = file.read_bytes()
        for seed in range(30):
            chance = random.Random(seed)
            damaged = bytearray(whole)
            for _ in range(chance.choice([1, 5, 50])):
                damaged[chance.randrange(min(len(damaged), 4000))] = chance.randrange(256)
            file.write_bytes(damaged)
            try:
                read(own_root, "ogbl-wikikg2").entities.identifiers.to_pylist()
            except InputError as error:
                seen = str(error)
                assert "ogbl_wikikg2" in seen
        file.write_bytes(whole)


def test_ids_are_kept_at_32_bits(root: Path) -> None:
    graph = read(root, "ogbl-wikikg2")
    assert graph.train.dtype == graph.candidates["test"].head.dtype == np.int32
    assert graph.candidates["test"].head.shape == (len(graph.test), 500)


def test_entities_have_types_where_ogb_has_them(root: Path) -> None:
    graph = read(root, "ogbl-biokg")
    assert graph.type_names == ("disease", "drug", "function", "protein", "sideeffect")
    assert graph.entity_types is not None
    type_of = [graph.type_names[index] for index in graph.entity_types]
    identifiers = graph.entities.identifiers.to_pylist()
    assert [identifier.split("/")[0] for identifier in identifiers] == type_of
    relations = graph.relations.identifiers.to_pylist()
    for head, relation, tail in graph.all_triples:
        first, second = relations[relation].split("_")[0].split("-")
        assert (type_of[head], type_of[tail]) == (first, second)
    candidates, tails = graph.candidates["test"].tail, graph.test[:, 2]
    assert (graph.entity_types[candidates] == graph.entity_types[tails][:, None]).all()
    assert read(root, "ogbl-wikikg2").entity_types is None


def test_identifiers_are_unique_though_names_are_shared(root: Path) -> None:
    entities = read(root, "ogbl-biokg").entities
    assert entities.names is not None
    assert len(set(entities.identifiers.to_pylist())) == len(entities)
    assert entities.names.to_pylist().count("C1000") == 2
    assert "protein/1000" in entities.identifiers.to_pylist()


def test_identifiers_follow_the_mapping_whatever_the_order_of_its_lines(own_root: Path) -> None:
    expected = read(own_root, "ogbl-wikikg2").entities.identifiers
    file = own_root / "ogbl_wikikg2" / "mapping" / "nodeidx2entityid.csv.gz"
    header, *lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    file.write_bytes(gzip.compress("\n".join([header, *reversed(lines)]).encode()))
    assert read(own_root, "ogbl-wikikg2").entities.identifiers.equals(expected)


@pytest.mark.parametrize("options", [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}])
@pytest.mark.parametrize("as_tensors", [False, True])
def test_every_way_in_which_ogb_has_stored_splits_opens(
    own_root: Path, options: dict[str, Any], as_tensors: bool
) -> None:
    expected = read(own_root, "ogbl-wikikg2")
    for file in (own_root / "ogbl_wikikg2" / "split" / "time").iterdir():
        part = torch.load(file, weights_only=False)
        torch.save({k: torch.from_numpy(v) for k, v in part.items()} if as_tensors else part, file, **options)
    graph = read(own_root, "ogbl-wikikg2")
    np.testing.assert_array_equal(graph.train, expected.train)
    np.testing.assert_array_equal(graph.candidates["test"].tail, expected.candidates["test"].tail)


def test_all_splits_in_one_file_open_too(own_root: Path) -> None:
    expected = read(own_root, "ogbl-biokg")
    folder = own_root / "ogbl_biokg" / "split" / "random"
    splits = {split: torch.load(folder / f"{split}.pt", weights_only=False) for split in SPLITS}
    for split in SPLITS:
        (folder / f"{split}.pt").unlink()
    torch.save(splits, folder / "split_dict.pt")
    np.testing.assert_array_equal(read(own_root, "ogbl-biokg").test, expected.test)


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("harm",)


def test_a_split_that_would_run_code_is_refused(
    own_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"head": Harmful()}, own_root / "ogbl_wikikg2" / "split" / "time" / "train.pt")
    with pytest.raises(InputError, match="which is no array"):
        read(own_root, "ogbl-wikikg2")
    assert not (tmp_path / "harm").exists()


def test_a_truncated_split_is_an_error_that_names_the_file(own_root: Path) -> None:
    file = own_root / "ogbl_biokg" / "split" / "random" / "valid.pt"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"valid\.pt: cannot be read"):
        read(own_root, "ogbl-biokg")


def test_an_id_without_a_name_is_an_error(own_root: Path) -> None:
    file = own_root / "ogbl_wikikg2" / "split" / "time" / "test.pt"
    part = torch.load(file, weights_only=False)
    part["tail_neg"][3, 7] = 100_000
    torch.save(part, file)
    with pytest.raises(InputError, match=r"test split has the entity 100000, but `mapping/` names 200"):
        read(own_root, "ogbl-wikikg2")


@pytest.mark.parametrize(
    ("part", "damage", "message"),
    [
        ("head", lambda ids: ids * 0 + 60, "the entity 60, but `mapping/` names"),  # another type's, once shifted
        ("relation", lambda ids: ids[1:], "where it should have ids"),
        ("head_neg", lambda ids: ids[:, 0], "where it should have ids"),
        ("tail_type", lambda types: types[1:], "has types of"),
    ],
)
def test_splits_that_do_not_fit_together_are_refused(own_root: Path, part: str, damage: Any, message: str) -> None:
    file = own_root / "ogbl_biokg" / "split" / "random" / "test.pt"
    content = torch.load(file, weights_only=False)
    content[part] = damage(content[part])
    torch.save(content, file)
    with pytest.raises(InputError, match=message):
        read(own_root, "ogbl-biokg")


def test_missing_files_are_named_and_nobody_is_asked(own_root: Path) -> None:
    (own_root / "ogbl_wikikg2" / "split" / "time" / "test.pt").unlink()
    with pytest.raises(InputError, match=r"no split/\*/test\.pt"):
        read(own_root, "ogbl-wikikg2")
    for file in (own_root / "ogbl_biokg" / "mapping").iterdir():
        file.unlink()
    with pytest.raises(InputError, match="mapping"):
        read(own_root, "ogbl-biokg")


@pytest.mark.parametrize("name", NAMES)
def test_the_benchmark_opens_by_its_name(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHER_DATA", str(root))
    assert locate(name) == folder_of(root, name)
    assert open_benchmark(name).name == name
