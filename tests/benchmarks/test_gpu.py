"""The measurement on a GPU: what it calls runs on any device, so that nothing but the GPU is new where there is one."""

from __future__ import annotations

import pytest
from benchmarks.gpu import answers_on, sides_on
from benchmarks.graphs import graph_of, random_triples
from benchmarks.step import COMPILED
from tests.conftest import CPU_AND_GPU

from transher.devices import Device


@pytest.mark.parametrize("device", CPU_AND_GPU)
def test_every_side_takes_a_step_or_ranks_on_its_device(device: Device) -> None:
    triples = random_triples(300, 6, 1500)
    sides = sides_on(device, graph_of(300, 6, triples[:1200], triples[1200:1400], triples[1400:]), 8)
    assert {"whole", "kernels", "authors", "pykeen", "ranking", "ranking, pykeen"} <= sides.keys()
    for name, side in sides.items():
        if name not in COMPILED:  # a compiler takes longer than all the others together
            side()


@pytest.mark.parametrize("device", CPU_AND_GPU)
def test_the_best_answers_are_sought_on_a_device(device: Device) -> None:
    sides = answers_on(device, 500, 8)
    found = {name: side() for name, side in sides.items()}
    assert found["transher, 1"][1].shape == (1, 10)
    assert found["transe, 64"][1].shape == (64, 10)
    assert found["read"].shape == ()
