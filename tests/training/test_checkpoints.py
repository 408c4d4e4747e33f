from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from transher.errors import InputError, TransherError
from transher.files import replacing, write_safetensors
from transher.training.checkpoints import MODEL_FILE, TrainingState, load_state, read_tensors, save_model, save_state


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(tmp_path, torch.arange(12.0).view(4, 3), torch.ones(2, 5), 7, 0.25)
    return tmp_path / MODEL_FILE


def test_the_safetensors_library_reads_what_we_write(saved: Path) -> None:
    tensors = load_file(saved)
    assert torch.equal(tensors["entities"], torch.arange(12.0).view(4, 3))
    assert torch.equal(tensors["relations"], torch.ones(2, 5))


def test_tensors_and_their_story_come_back(saved: Path) -> None:
    tensors, metadata = read_tensors(saved)
    assert torch.equal(tensors["entities"], torch.arange(12.0).view(4, 3))
    assert metadata == {"step": 7, "mrr": 0.25}


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_file_is_an_error_that_says_so(saved: Path, keep: int) -> None:
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"model\.safetensors.*(whole|hash)"):
        read_tensors(saved)


def test_a_changed_byte_is_noticed(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[-3] ^= 1
    saved.write_bytes(content)
    with pytest.raises(InputError, match="hash"):
        read_tensors(saved)


@pytest.mark.parametrize("spoil", [False, True])
def test_a_file_with_the_hash_of_earlier_versions_is_checked_by_that(tmp_path: Path, spoil: bool) -> None:
    path, data = tmp_path / "old.safetensors", torch.ones(2)
    digest = sha256(data.numpy().tobytes()).hexdigest()
    save_file({"x": data + spoil}, path, {"format": "1", "state": "{}", "sha256": digest})
    if spoil:
        with pytest.raises(InputError, match="hash"):
            read_tensors(path)
    else:
        assert torch.equal(read_tensors(path)[0]["x"], data)


def test_another_format_is_refused(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "old.safetensors", {"x": np.ones(2, np.float32)}, {"format": "99", "state": "{}"})
    with pytest.raises(InputError, match="format '99'"):
        read_tensors(tmp_path / "old.safetensors")


def test_a_pickle_is_not_loaded(tmp_path: Path) -> None:
    torch.save({"entities": torch.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="not a whole safetensors file"):
        read_tensors(tmp_path / "model.safetensors")


def test_state_comes_back_writable(tmp_path: Path) -> None:
    progress = TrainingState(step=3, best_mrr=0.5, best_step=2, stale=1, seconds=1.5, updates=3)
    save_state(tmp_path, {"entities": torch.ones(2, 2), "entities.m": torch.zeros(2, 2)}, progress)
    tensors, loaded = load_state(tmp_path)
    tensors["entities"] += 1
    assert loaded == progress
    assert (load_state(tmp_path)[0]["entities"] == 1).all()


def test_nothing_to_go_on_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(TransherError, match="no checkpoint"):
        load_state(tmp_path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail_midway() -> None:
        with replacing(path) as file:
            file.write(b"half of the n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_midway()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
