"""A training in parts on devices: rows and gradients go from one device to the other, and nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.training.parts_worker import QUICK, random_graph
from tests.training.threads_as_workers import ThreadWorkers, on_threads

from transher import devices, workers
from transher.errors import UsageError
from transher.models import MODELS
from transher.training.part_step import PartStep
from transher.training.part_trainer import PartTrainer
from transher.training.parts import Layout
from transher.training.recipe import Recipe
from transher.training.shard import shard_of

META, CPU, GPU = torch.device("meta"), torch.device("cpu"), torch.device("cuda", 1)


def trainer_of(own: workers.Workers, recipe: Recipe, folder: Path, resume: bool = False) -> PartTrainer:
    layout = Layout(recipe.training.parts, own.count)
    return PartTrainer(
        shard_of(random_graph(), recipe.training, layout.of(own.index)), recipe, folder, own, resume=resume
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("home", [META, CPU], ids=["on the device", "in the computer's memory"])
def test_steps_of_two_workers_run_on_devices_without_data(
    name: str, home: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`meta` refuses to meet another device. Only the loss, which has no value there, is not asked for."""
    chosen = ["training.n3=0.1", "training.gradient_share=0.5", "training.averaging=0.2", "model.start_at_margin=false"]
    dropped = ["training.dropout=0.1"] if MODELS[name].can_drop else []
    recipe = Recipe().with_settings([*QUICK, "training.parts=3", f"model.name={name}", *chosen, *dropped])
    monkeypatch.setattr(devices, "place", lambda device, needed: devices.Place(home, device, ""))
    monkeypatch.setattr(PartStep, "_heard", lambda self, told: 0.0 if told.is_meta else float("nan"))

    def work(own: ThreadWorkers) -> ThreadWorkers:
        trainer = trainer_of(own, recipe, tmp_path)
        for step in (14, 15):  # the second one moves the averages
            trainer.train_step(trainer.batches.at(step), step)
        trainer.batches.settle()
        assert all(
            tensor.device == home
            for table in trainer._tables()
            for tensor in (table.weight, table.average, *table.state.values())
            if tensor is not None
        )
        return own

    if home == CPU:  # what was computed on `meta` has no numbers that could come back
        monkeypatch.setattr("transher.training.table.Table.push", lambda *_: None)
        monkeypatch.setattr("transher.training.part_step.with_translations", lambda step, table, *moving: moving)
    for own in on_threads(2, META, work):
        assert own.step == {META}
        assert own.ahead == {CPU}


@pytest.mark.parametrize(("others", "name", "taken"), [(1.0, "auto", GPU), (0.0, "auto", CPU), (1.0, "cuda", GPU)])
def test_workers_take_gpus_if_each_has_its_own(
    others: float, name: devices.Device, taken: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _second_of_two(others, monkeypatch).device(name) == taken


def test_a_worker_without_a_gpu_ends_a_training_that_names_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    second = _second_of_two(0.0, monkeypatch)
    with pytest.raises(UsageError, match="not every worker has a GPU"):
        second.device("cuda")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(UsageError, match="worker 3 of this machine has no GPU of its own: there are 2"):
        second.device("cuda")
    assert second.device("auto") == second.device("cpu") == CPU


def _second_of_two(others: float, monkeypatch: pytest.MonkeyPatch) -> workers.Workers:
    """The second worker of a machine that seems to have two GPUs; of the others it hears that they have one or not."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "1")
    second = workers.Workers()
    second.index, second.count = 1, 2
    monkeypatch.setattr(second, "gather", lambda values: torch.stack([torch.full_like(values, others), values]))
    return second


def test_nccl_carries_what_is_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert workers._backends() == "cpu:gloo,cuda:nccl"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert workers._backends() == "cpu:gloo"
