"""The measurement on a GPU: what it calls runs on any device, so that nothing but the GPU is new where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from benchmarks.gpu import OPERATIONS, answers_on, kernels_on, ranked_on, sides_on
from benchmarks.graphs import graph_of, random_triples
from benchmarks.settings import Settings
from benchmarks.step import COMPILED, sides
from tests.conftest import CPU_AND_GPU

from benchmarks import gpu, tables, timing
from transher.devices import Device
from transher.graph.graph import Graph


@pytest.fixture
def graph() -> Graph:
    triples = random_triples(300, 6, 1500)
    return graph_of(300, 6, triples[:1200], triples[1200:1400], triples[1400:])


@pytest.mark.parametrize("device", CPU_AND_GPU)
def test_every_side_takes_a_step_on_its_device(graph: Graph, device: Device) -> None:
    sides = sides_on(device, graph, 8)
    assert {"whole", "kernels", "compiled kernels", "authors", "pykeen", "compiled"} <= sides.keys()
    for name, side in sides.items():
        if name not in COMPILED:  # a compiler takes longer than all the others together
            side()


@pytest.mark.parametrize("device", CPU_AND_GPU)
def test_all_test_triples_are_ranked_on_a_device_and_by_pykeen(graph: Graph, device: Device) -> None:
    row = ranked_on(device, graph, 8, 4, Settings(quick=False, seconds=60.0))
    assert row["triples"] == row["of"] == 100
    assert row["pykeen"]["triples"] == 4
    assert row["faster"] == row["pykeen"]["seconds_per_triple"] / row["seconds_per_triple"]


@pytest.mark.parametrize("device", CPU_AND_GPU)
def test_the_best_answers_are_sought_on_a_device(device: Device) -> None:
    sides = answers_on(device, 500, 8)
    found = {name: side() for name, side in sides.items()}
    assert found["transher, 1"][1].shape == (1, 10)
    assert found["transe, 64"][1].shape == (64, 10)
    assert found["read"].shape == ()


@pytest.mark.parametrize("device", CPU_AND_GPU)
def test_kernels_run_alone_on_a_device(device: Device) -> None:
    sides = kernels_on(device, (5, 7, 9), 16, 100)
    assert sides.keys() == {*OPERATIONS, "product", "read", "copy"}
    assert sides["forward"]().shape == (5, 7)
    for _ in range(2):
        assert [gradient.shape for gradient in sides["backward"]()] == [(5, 9), (5, 9), (7, 9)]
    assert sides["product"]().shape == (16, 16)
    assert sides["read"]() == 100
    assert sides["copy"]().shape == (100,)


def test_what_was_measured_on_a_gpu_has_the_tables_of_the_cpu(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole measurement where there is no GPU: every part as on one, and what the document makes of it."""
    monkeypatch.setattr(gpu, "SHAPES", (8,))
    monkeypatch.setattr(gpu, "BATCH", 16)
    monkeypatch.setattr(gpu, "RANKED", (("any", 8, 4), ("any", 8, 0)))
    monkeypatch.setattr(gpu, "ENTITIES", 500)
    monkeypatch.setattr(gpu, "DIMENSIONS", 8)
    monkeypatch.setattr(gpu, "_PRODUCT", 16)
    monkeypatch.setattr(gpu, "_READ", 100)
    monkeypatch.setattr(gpu, "RESULTS", tmp_path)
    monkeypatch.setattr(gpu, "graph_like", lambda name: (graph, "small"))
    monkeypatch.setattr(timing, "BURST", 0.0)
    slow = ("compiled", "compiled kernels", "pykeen")
    monkeypatch.setattr(gpu, "sides", lambda *of: {n: side for n, side in sides(*of).items() if n not in slow})
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Pretended GPU 1")
    kept = []
    gpu.measured("cpu", lambda result: kept.append(list(result)) or gpu.write("gpu-pretended", result))  # type: ignore[func-returns-value]
    assert [parts[-1] for parts in kept] == ["step", "peak", "ranking", "top"]
    text = tables.render("gpu", tables.read_results(tmp_path))
    assert text.count("`make bench-gpu`") == len(tables.GPU_PARTS)
    assert "**Pretended GPU 1**" in text
    for row in ("transher, the whole step", "transher's kernels", "| backward | 7 |", "small, k 8", "top 10 of 500"):
        assert row in text
