from __future__ import annotations

import json
from pathlib import Path

import pytest

import transher
from transher.errors import InputError


def test_it_says_what_the_run_was_made_with(run: transher.Run) -> None:
    assert run.manifest is not None
    assert run.manifest["seed"] == 0
    assert run.manifest["cost"]["steps"] == 200
    assert run.manifest["versions"]["torch"].startswith("2.")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "recipe.toml", "ranks.parquet", "graph/train.parquet", "graph/entities.parquet"]
)
def test_a_changed_file_is_noticed(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(InputError, match="hash"):
        transher.load(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors.*missing"):
        transher.load(copy)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}'])
def test_a_broken_manifest_is_an_error(copy: Path, content: str) -> None:
    (copy / "manifest.json").write_text(content)
    with pytest.raises(InputError, match="not a manifest"):
        transher.load(copy)


def test_a_manifest_of_a_later_format_is_refused(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    with pytest.raises(InputError, match="format 99"):
        transher.load(copy)
