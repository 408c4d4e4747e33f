"""The weights of a blend on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from transher.blending import Weights
from transher.blending.storage import BLEND_FILE, load_weights, save_weights
from transher.blending.tallies import LEVELS
from transher.errors import InputError
from transher.files import write_safetensors

WEIGHTS = Weights(torch.rand(3, 2, 5), (0.0, 0.0, 30.0))
WORTH = torch.randn(10, LEVELS)


def test_weights_come_back(tmp_path: Path) -> None:
    save_weights(tmp_path, WEIGHTS, ["a", "b", "c"])
    found = load_weights(tmp_path, 3, 5)
    assert torch.equal(found.values, WEIGHTS.values)
    assert found.bends == WEIGHTS.bends
    assert found.worth is None


def test_so_does_the_worth_of_tallies(tmp_path: Path) -> None:
    save_weights(tmp_path, Weights(WEIGHTS.values, WEIGHTS.bends, WORTH), ["a", "b", "c"])
    found = load_weights(tmp_path, 3, 5)
    assert found.worth is not None
    assert torch.equal(found.worth, WORTH)


def test_a_worth_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for wrong, said in ((WORTH[1:], "for tallies"), (WORTH.double(), "for tallies"), (WORTH / 0, "not finite")):
        save_weights(tmp_path, Weights(WEIGHTS.values, WEIGHTS.bends, wrong), [])
        with pytest.raises(InputError, match=said):
            load_weights(tmp_path, 3, 5)


def test_weights_of_another_blend_are_refused(tmp_path: Path) -> None:
    save_weights(tmp_path, WEIGHTS, ["a", "b", "c"])
    for members, relations in ((2, 5), (3, 4)):
        with pytest.raises(InputError, match="where recipe and graph say"):
            load_weights(tmp_path, members, relations)


def test_weights_that_cannot_be_are_refused(tmp_path: Path) -> None:
    values = WEIGHTS.values.clone()
    for wrong in (-1.0, float("nan"), float("inf")):
        values[0, 0, 0] = wrong
        save_weights(tmp_path, Weights(values, WEIGHTS.bends), [])
        with pytest.raises(InputError, match="negative or not finite"):
            load_weights(tmp_path, 3, 5)


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_weights(tmp_path, 3, 5)
    save_weights(tmp_path, WEIGHTS, [])
    whole = (tmp_path / BLEND_FILE).read_bytes()
    for part in (b"", whole[:10], whole[:-4], whole[:-1] + b"\xff"):
        (tmp_path / BLEND_FILE).write_bytes(part)
        with pytest.raises(InputError):
            load_weights(tmp_path, 3, 5)
    write_safetensors(tmp_path / BLEND_FILE, {"weights": np.zeros((3, 2, 5), np.float32)}, {"format": "9"})
    with pytest.raises(InputError, match="format '9'"):
        load_weights(tmp_path, 3, 5)
