"""Batches that are made on a device are those that the CPU makes, to the last id."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import CPU_AND_GPU, make_graph
from torch import Tensor

from transher.kernels.draws import Stream
from transher.training.batches import CPU, Batch, Batches, on_device
from transher.training.device_batches import DeviceBatches
from transher.training.settings import TrainingSettings


def same(one: Batch, other: Batch) -> None:
    for field in fields(Batch):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, Tensor):
            assert torch.equal(a, b), field.name
            assert a.dtype == b.dtype, field.name
        elif field.name == "groups":
            assert [rows for rows, _ in a] == [rows for rows, _ in b]
            assert all(torch.equal(x, y) for (_, x), (_, y) in zip(a, b, strict=True))
        else:
            assert a == b, field.name


@pytest.mark.parametrize("device", CPU_AND_GPU)
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pools": 3, "translation_l2": 0.0},
        {"pools": "each", "weighting": "none"},
        {"pools": "each", "filter_known": False},
        {"filter_known": False, "weighting": "query"},
    ],
)
def test_every_kind_of_batch_is_the_same_as_on_the_cpu(settings: dict[str, Any], reciprocal: bool, device: str) -> None:
    generator = np.random.default_rng(0)
    triples = np.stack(
        [generator.integers(50, size=300), generator.integers(4, size=300), generator.integers(50, size=300)], 1
    )
    graph = make_graph(triples, entities=50, relations=4)
    chosen = TrainingSettings(batch=70, negatives=20, seed=7, **settings)
    there, here = DeviceBatches(graph, chosen, reciprocal, torch.device(device)), Batches(graph, chosen, reciprocal)
    for step in (0, 1, 2, 11):
        same(on_device(there.at(step), CPU), here.at(step))


def test_typed_batches_come_from_the_cpu() -> None:
    graph = make_graph([(i, 0, (i + 1) % 20) for i in range(20)], entity_types=np.arange(20) % 3)
    chosen = TrainingSettings(batch=8, negatives=4, typed=True)
    same(DeviceBatches(graph, chosen, False, CPU).at(3), Batches(graph, chosen, False).at(3))


@pytest.mark.parametrize("bound", [1, 2, 14541, 2_000_000_000])
def test_whole_numbers_are_those_of_numpys_generator(bound: int) -> None:
    generator = np.random.Generator(np.random.Philox(key=[5, 2], counter=[0, 0, 0, 9]))
    expected = generator.integers(bound, size=3000)
    found = Stream((5, 2), 9).integers(bound, 3000, CPU)
    assert found.tolist() == expected.tolist()


def test_a_batch_moves_to_a_device_with_all_of_its_tensors() -> None:
    graph = make_graph([(i, 0, (i + 1) % 20) for i in range(20)])
    moved = on_device(Batches(graph, TrainingSettings(batch=8, negatives=4), False).at(0), torch.device("meta"))
    assert moved.entity_ids.is_meta
    assert moved.groups[0][1].is_meta
    assert moved.side == "tail"
