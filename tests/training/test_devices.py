"""Devices: which one is chosen, where tables lie, and that nothing of a step stays behind on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from transher import devices
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.models import MODELS
from transher.models.embeddings import Embeddings, Held
from transher.scorer import as_known
from transher.training.batches import Batches
from transher.training.recipe import Recipe
from transher.training.step import TrainingStep
from transher.training.table import TABLES, SparseAdamTable

META, CPU = torch.device("meta"), torch.device("cpu")
GIGABYTE = 10**9


@pytest.fixture(autouse=True)
def no_choice() -> Iterator[None]:
    yield
    devices.use(None)


def test_auto_takes_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert devices.find("auto").type == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert devices.find("auto").type == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.find("auto").type == "cuda"
    devices.use("cpu")
    assert devices.find("cuda").type == "cpu"  # what the user chose overrides the recipe


def test_a_device_that_is_not_there_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="take auto or cpu"):
        devices.find("cuda")
    with pytest.raises(UsageError, match="one of auto, cpu, cuda, mps"):
        devices.use("gpu")  # type: ignore[arg-type]


def test_tables_lie_on_the_gpu_if_they_fit_with_their_optimiser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "GPU")
    gpu = torch.device("cuda")
    fits = devices.place(gpu, 7 * GIGABYTE, free=10 * GIGABYTE)
    assert fits.home == fits.device == gpu
    large = devices.place(gpu, 9 * GIGABYTE, free=10 * GIGABYTE)
    assert (large.home, large.device) == (CPU, gpu)
    assert "need 9.00 GB, and 10.00 GB are free" in large.why
    assert devices.place(CPU, GIGABYTE).home == CPU


@pytest.mark.parametrize("optimiser", TABLES)
@pytest.mark.parametrize("name", ["transher", "rotate", "complex"])
def test_a_whole_step_runs_on_a_device_without_data(ring: Graph, name: str, optimiser: str) -> None:
    """Every tensor that a step makes is on the device of its tables: `meta` refuses to meet another."""
    chosen = [
        "model.k=8",
        "training.batch=32",
        "training.negatives=8",
        "training.n3=0.1",
        "training.gradient_share=0.5",
    ]
    dropped = ["training.dropout=0.1"] if MODELS[name].can_drop else []
    recipe = Recipe().with_settings([f"model.name={name}", *chosen, *dropped])
    model = MODELS[name](8, 6.0)
    tables = [
        TABLES[optimiser](torch.empty(rows, width, device=META), averaged=True, unit=True)
        for rows, width in ((60, model.entity_width), (3, model.relation_width))
    ]
    batches = Batches(ring, recipe.training, False, META)
    step = TrainingStep(model, recipe.training, batches, tables[0], tables[1])
    batch = batches.at(0)
    rows = step.entities.pull(batch.entity_ids), step.relations.pull(batch.relation_ids)
    step.loss(batch, *rows, 0).backward()
    for table, part, ids in zip(tables, rows, (batch.entity_ids, batch.relation_ids), strict=True):
        assert part.grad is not None
        assert part.grad.is_meta
        table.push(ids, part.grad, 0.1)
        table.follow(0.1)
        assert table.weight.is_meta


def test_rows_of_a_table_elsewhere_come_to_the_device_and_their_gradients_go_back() -> None:
    table = SparseAdamTable(torch.ones(5, 3), device=META)
    rows = table.pull(torch.tensor([1, 2]))
    assert rows.is_meta
    assert rows.requires_grad
    assert table.weight.device == CPU


@pytest.mark.parametrize("name", ["transher", "distmult", "transr"])
def test_scores_from_tables_that_a_device_holds_are_those_of_the_weights(ring: Graph, name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name](6, 6.0)
    plain = Embeddings(model, torch.randn(60, model.entity_width), torch.randn(3, model.relation_width))
    tables = plain.entity_weights.clone(), plain.relation_weights.clone()
    nothing = [torch.full_like(table, torch.nan) for table in tables]
    held = Embeddings(model, nothing[0], nothing[1], held=Held(*tables, CPU, seen=False))
    anchors, relations, answers = torch.arange(20), torch.arange(20) % 3, torch.arange(20) + 7
    known = as_known(ring.known.answers("tail"), anchors.numpy(), relations.numpy())
    for other in (held, held.prepared()):
        assert torch.equal(other.scores(anchors, relations, "tail"), plain.scores(anchors, relations, "tail"))
        assert torch.equal(other.score_triples(torch.stack([anchors, relations, answers], 1)),
                           plain.score_triples(torch.stack([anchors, relations, answers], 1)))  # fmt: skip
        own = torch.randint(60, (20, 4))
        assert torch.equal(
            other.score_own(anchors, relations, "head", own), plain.score_own(anchors, relations, "head", own)
        )
        for a, b in zip(
            other.count_better(anchors, relations, answers, "tail", known),
            plain.count_better(anchors, relations, answers, "tail", known),
            strict=True,
        ):
            assert a.tolist() == b.tolist()
        assert (
            other.best(anchors, relations, "tail", 5, known)[1].tolist()
            == plain.best(anchors, relations, "tail", 5, known)[1].tolist()
        )


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["transher", "rotate", "distmult"])
def test_a_gpu_takes_the_steps_of_the_cpu(ring: Graph, name: str) -> None:
    results = []
    for device in (CPU, torch.device("cuda")):
        recipe = Recipe().with_settings(
            [f"model.name={name}", "model.k=8", "training.batch=32", "training.negatives=8"]
        )
        torch.manual_seed(0)
        model = MODELS[name](8, 6.0)
        tables = [
            SparseAdamTable(torch.randn(rows, width).to(device))
            for rows, width in ((60, model.entity_width), (3, model.relation_width))
        ]
        batches = Batches(ring, recipe.training, False, device)
        step = TrainingStep(model, recipe.training, batches, tables[0], tables[1])
        results.append([step(batches.at(number), number) for number in range(5)])
    assert results[0] == pytest.approx(results[1], rel=1e-4)
