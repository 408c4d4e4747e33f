"""Devices: which one is chosen, where tables lie, and that nothing of a step stays behind on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.conftest import CPU_AND_GPU, needs_gpu
from tests.training.pretended import THERE, PretendedDevice, There, Threads

from transher import devices
from transher.errors import UsageError
from transher.evaluation.ranking import rank
from transher.graph.graph import Graph
from transher.kernels import native
from transher.models import MODELS
from transher.models.embeddings import Embeddings, Held
from transher.scorer import as_known
from transher.training import batches, trainer
from transher.training.batches import Batches
from transher.training.device_batches import DeviceBatches, source_on
from transher.training.recipe import Recipe
from transher.training.step import TrainingStep
from transher.training.table import TABLES, SparseAdamTable
from transher.training.trainer import Trainer

META, CPU = torch.device("meta"), torch.device("cpu")
GIGABYTE = 10**9
SMALL = ["model.k=8", "training.batch=32", "training.negatives=8"]


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


def test_what_torch_keeps_of_an_earlier_training_is_free_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2 * GIGABYTE, 24 * GIGABYTE))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 9 * GIGABYTE)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: GIGABYTE)
    assert devices.free_bytes(torch.device("cuda")) == 10 * GIGABYTE


def test_what_a_softmax_over_all_entities_takes_is_left_free(
    ring: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of every entity, and with bfloat16 two copies of half the size."""
    needed: list[int] = []

    def note(device: torch.device, size: int) -> devices.Place:
        needed.append(size)
        return devices.Place(device, device, "")

    monkeypatch.setattr(devices, "place", note)
    for precision in ("float32", "bfloat16"):
        chosen = ["model.name=complex", *SMALL, *_EVERYONE, f"training.precision={precision}"]
        own = Trainer(ring, Recipe().with_settings(chosen), tmp_path)
        tables = sum(table.weight.nbytes + table.state["m"].nbytes * 2 for table in (own.entities, own.relations))
        copies = 1 if precision == "float32" else 2
        assert needed[-1] == tables + copies * own.entities.weight.nbytes


@pytest.mark.parametrize("optimiser", TABLES)
@pytest.mark.parametrize("name", MODELS)
def test_a_whole_step_runs_on_a_device_without_data(ring: Graph, name: str, optimiser: str) -> None:
    """Every tensor that a step makes is on the device of its tables: `meta` refuses to meet another."""
    chosen = [*SMALL, "training.n3=0.1", "training.gradient_share=0.5"]
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
@needs_gpu
@pytest.mark.parametrize("name", MODELS)
def test_a_gpu_takes_the_steps_of_the_cpu(ring: Graph, name: str) -> None:
    results = []
    for device in (CPU, torch.device("cuda")):
        recipe = Recipe().with_settings([f"model.name={name}", *SMALL])
        torch.manual_seed(0)
        model = MODELS[name](8, 6.0)
        tables = [
            SparseAdamTable(torch.randn(rows, width).to(device))
            for rows, width in ((60, model.entity_width), (3, model.relation_width))
        ]
        batches = source_on(device)(ring, recipe.training, False, device)
        step = TrainingStep(model, recipe.training, batches, tables[0], tables[1])
        results.append([step(batches.at(number), number) for number in range(5)])
    assert results[0] == pytest.approx(results[1], rel=1e-4)


@pytest.mark.parametrize("device", CPU_AND_GPU)
@pytest.mark.parametrize("name", ["transher", "rotate", "distmult"])
def test_a_training_moves_between_devices_and_ranks_alike_on_each(
    ring: Graph, name: str, device: devices.Device, tmp_path: Path
) -> None:
    recipe = Recipe().with_settings([f"model.name={name}", *SMALL, "training.steps=12"])
    trips: list[tuple[devices.Device, devices.Device]] = [("cpu", "cpu"), ("cpu", device), (device, "cpu")]
    found = []
    for ways in trips:
        folder = tmp_path / "-".join(ways)
        folder.mkdir(exist_ok=True)
        for way, until in zip(ways, (6, 12), strict=True):
            devices.use(way)
            trainer = Trainer(ring, recipe, folder, resume=until > 6)
            assert trainer.entities.weight.device.type == way
            trainer.run(until=until)
        ranks = torch.from_numpy(rank(trainer.scorer, ring.test, ring.known).realistic)
        found.append((trainer.entities.weight.cpu(), ranks))
    for weights, ranks in found[1:]:
        torch.testing.assert_close(weights, found[0][0], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(ranks, found[0][1], atol=1.0, rtol=0.0)  # near ties may change places


_EVERYONE = ["training.negatives=all", "training.loss=cross-entropy", "training.sampled_softmax=false"]


@pytest.mark.parametrize(
    "chosen",
    [
        ["training.n3=0.01"],
        ["training.pools=each", "training.averaging=0.2"],
        [*_EVERYONE, "training.relation_prediction=0.5"],
        [*_EVERYONE, "training.relation_prediction=0.5", "training.precision=bfloat16"],
    ],
    ids=["one pool", "their own", "all entities", "all entities, bfloat16"],
)
@pytest.mark.parametrize("home", [THERE, CPU], ids=["on the device", "in the computer's memory"])
@pytest.mark.parametrize("name", MODELS)
def test_a_training_on_a_pretended_device_gives_the_weights_and_ranks_of_the_cpu(
    ring: Graph, name: str, home: torch.device, chosen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if chosen[0] == _EVERYONE[0] and not MODELS[name].by_dot_product:
        pytest.skip("takes drawn negatives")
    monkeypatch.setattr(native, "module", None)  # plain torch on both
    monkeypatch.setattr(native, "_warned", True)
    monkeypatch.setattr(batches, "ThreadPoolExecutor", Threads)
    recipe = Recipe().with_settings([f"model.name={name}", *SMALL, "training.steps=6", *chosen])
    found = []
    for device, lies in ((CPU, CPU), (THERE, home)):
        monkeypatch.setattr(devices, "find", lambda name, device=device: device)
        monkeypatch.setattr(devices, "place", lambda *_, device=device, lies=lies: devices.Place(lies, device, ""))
        monkeypatch.setattr(trainer, "source_on", lambda device: Batches if device == CPU else DeviceBatches)
        with PretendedDevice():
            folder = tmp_path / str(device)
            folder.mkdir()
            own = Trainer(ring, recipe, folder)
            own.run()
            assert isinstance(own.entities.weight, There) == (lies == THERE)
            scorer = own.scorer
            ranks = rank(scorer, ring.test, ring.known).realistic
            best = scorer.best(torch.arange(9), torch.arange(9) % 3, "tail", 4)
            found.append((own.entities.weight.cpu(), torch.from_numpy(ranks), *best))
    for on_cpu, there in zip(*found, strict=True):
        torch.testing.assert_close(there, on_cpu)
