from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import make_graph

from transher.errors import Diverged
from transher.evaluation import evaluate
from transher.graph.graph import Graph
from transher.models import MODELS
from transher.training.checkpoints import MODEL_FILE, TrainingState, load_state, read_tensors
from transher.training.history import read_history
from transher.training.recipe import Recipe
from transher.training.schedule import DROPS
from transher.training.trainer import Trainer, trouble
from transher.training.watcher import Report, Watcher

QUICK = ["model.k=16", "training.steps=60", "training.batch=32", "training.negatives=16", "validation.every=20"]


def recipe(*settings: str) -> Recipe:
    return Recipe().with_settings([*QUICK, "validation.report_every=10", *settings])


def train(graph: Graph, folder: Path, *settings: str) -> Trainer:
    trainer = Trainer(graph, recipe(*settings), folder)
    trainer.run()
    return trainer


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns(ring: Graph, tmp_path: Path, name: str) -> None:
    gamma = {"distmult": 30, "complex": 30, "seek": 30, "hole": 30}.get(name, 4)
    settings = [
        f"model.name={name}",
        f"model.gamma={gamma}",
        "training.steps=300",
        "training.lr=0.02",
        "validation.every=300",
    ]
    before = Trainer(ring, recipe(*settings), tmp_path).scorer
    start = evaluate(before, ring, "train").overall.mrr
    end = evaluate(train(ring, tmp_path, *settings).scorer, ring, "train").overall.mrr
    assert end > max(0.15, 1.5 * start)


@pytest.mark.parametrize(
    "settings",
    [
        ["training.loss=cross-entropy"],
        ["training.loss=margin"],
        ["training.pools=each"],
        ["training.optimizer=adam", "training.schedule=step"],
        ["training.optimizer=adagrad", "training.lr=0.1"],
        ["training.loss=cross-entropy", "training.sampled_softmax=true", "training.negatives=3"],
        ["training.filter_known=false"],
        ["model.reciprocal=true"],
        ["training.dropout=0.1"],
        ["training.gradient_share=0.3"],
        ["training.n3=0.001"],
        ["model.name=complex", "model.gamma=30", "training.n3=0.001"],
        ["training.schedule=cosine", "training.warmup=20"],
        ["training.weighting=none"],
        ["training.averaging=0.1"],
        ["training.relation_rate=5"],
        ["training.unit_entities=true"],
    ],
    ids=" ".join,
)
def test_every_setting_learns(ring: Graph, tmp_path: Path, settings: list[str]) -> None:
    trainer = train(ring, tmp_path, "training.steps=300", "training.lr=0.02", "validation.every=300", *settings)
    assert evaluate(trainer.scorer, ring, "train").overall.mrr > 0.2


def test_the_penalty_on_translations_shrinks_them(ring: Graph, tmp_path: Path) -> None:
    free = train(ring, tmp_path / "free", "training.translation_l2=0", "training.lr=0.05")
    held = train(ring, tmp_path / "held", "training.translation_l2=1.0", "training.lr=0.05")
    size = [trainer.model.translation(trainer.relations.weight).norm().item() for trainer in (free, held)]  # type: ignore[union-attr]
    assert size[1] < size[0] / 2


def test_the_same_seed_gives_the_same_weights(ring: Graph, tmp_path: Path) -> None:
    first, second = (train(ring, tmp_path / name, "training.dropout=0.1") for name in "ab")
    assert torch.equal(first.entities.weight, second.entities.weight)
    assert torch.equal(first.relations.weight, second.relations.weight)
    other = train(ring, tmp_path / "c", "training.dropout=0.1", "training.seed=1")
    assert not torch.equal(first.entities.weight, other.entities.weight)


class StopAt(Watcher):
    """Asks the training to stop, as Ctrl-C does."""

    def __init__(self, trainer: Trainer, step: int) -> None:
        self.trainer, self.step = trainer, step

    def report(self, report: Report) -> None:
        if report.step == self.step:
            self.trainer.stop()


def test_relations_learn_at_a_multiple_of_the_rate(ring: Graph, tmp_path: Path) -> None:
    moved = {}
    for rate in (1, 4):
        trainer = Trainer(ring, recipe(f"training.relation_rate={rate}"), tmp_path)
        before = trainer.entities.weight.clone(), trainer.relations.weight.clone()
        trainer.train_step(trainer.batches.at(0), 0)
        moved[rate] = trainer.entities.weight - before[0], trainer.relations.weight - before[1]
    assert torch.equal(moved[1][0], moved[4][0])
    torch.testing.assert_close(4 * moved[1][1], moved[4][1], rtol=1e-4, atol=1e-6)


def test_averaged_weights_are_those_that_are_kept(ring: Graph, tmp_path: Path) -> None:
    plain, averaged = (train(ring, tmp_path / name, f"training.averaging={name}") for name in ("0", "0.5"))
    assert torch.equal(plain.entities.weight, averaged.entities.weight)  # the training goes on as it would without
    assert plain.entities.average is None
    assert averaged.entities.average is not None
    assert not torch.equal(averaged.entities.average, averaged.entities.weight)
    path = tmp_path / "steps"
    trainer = Trainer(ring, recipe("training.averaging=0.5"), path)
    seen = trainer.entities.weight.clone()
    for step in range(32):
        trainer.train_step(trainer.batches.at(step), step)
        if step + 1 in (16, 32):
            share = 1 - math.exp(-16 / (0.5 * (step + 1)))
            seen += share * (trainer.entities.weight - seen)
    torch.testing.assert_close(trainer.entities.learned, seen)
    best, _ = read_tensors(tmp_path / "0.5" / MODEL_FILE)
    assert not any(torch.equal(best["entities"], table.entities.weight) for table in (plain, averaged))


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["training.optimizer=adam", "training.schedule=step"],
        ["training.dropout=0.2", "training.gradient_share=0.5"],
        ["training.averaging=0.3"],
        ["training.unit_entities=true", "training.relation_rate=0.3"],
        ["training.schedule=plateau", "validation.patience=1", "training.lr=0.1", "training.averaging=0.3"],
    ],
)
def test_a_training_that_was_stopped_ends_as_if_it_had_not_been(
    ring: Graph, tmp_path: Path, settings: list[str]
) -> None:
    whole = train(ring, tmp_path / "whole", *settings)
    stopped = Trainer(ring, recipe(*settings), tmp_path / "stopped")
    with pytest.raises(Exception, match="stopped at step 30 of 60"):
        stopped.run(StopAt(stopped, 30))
    resumed = Trainer(ring, recipe(*settings), tmp_path / "stopped", resume=True)
    assert resumed.progress.step == 30
    resumed.run()
    assert torch.equal(whole.entities.weight, resumed.entities.weight)
    assert torch.equal(whole.relations.weight, resumed.relations.weight)
    assert torch.equal(whole.entities.learned, resumed.entities.learned)
    for name in ("whole", "stopped"):
        assert [line["step"] for line in read_history(tmp_path / name) if line["kind"] == "report"] == [
            10,
            20,
            30,
            40,
            50,
            60,
        ]
    best = [read_tensors(tmp_path / name / MODEL_FILE) for name in ("whole", "stopped")]
    assert torch.equal(best[0][0]["entities"], best[1][0]["entities"])
    assert best[0][1] == best[1][1]


def test_history_beyond_the_checkpoint_is_taken_back(ring: Graph, tmp_path: Path) -> None:
    trainer = Trainer(ring, recipe(), tmp_path)
    with pytest.raises(Exception, match="stopped"):
        trainer.run(StopAt(trainer, 30))
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "report", "step": 40, "loss": 1.0}) + '\n{"kind": "rep')
    Trainer(ring, recipe(), tmp_path, resume=True).run()
    assert [line["step"] for line in read_history(tmp_path) if line["kind"] == "report"] == [10, 20, 30, 40, 50, 60]


def test_a_training_that_goes_on_reports_the_mean_loss_of_its_own_steps(ring: Graph, tmp_path: Path) -> None:
    trainer = Trainer(ring, recipe(), tmp_path)
    losses = []
    for step in range(10):
        if step == 7:
            trainer.progress.step = 7
            trainer.save()
        losses.append(trainer.train_step(trainer.batches.at(step), step))
    Trainer(ring, recipe(), tmp_path, resume=True).run()
    first = next(line for line in read_history(tmp_path) if line["kind"] == "report")
    assert (first["step"], first["loss"]) == (10, pytest.approx(sum(losses[7:]) / 3))


def test_the_best_weights_are_kept_and_not_the_last(ring: Graph, tmp_path: Path) -> None:
    trainer = train(ring, tmp_path, "training.steps=200", "training.lr=0.05")
    tensors, metadata = read_tensors(tmp_path / MODEL_FILE)
    validations = {line["step"]: line["mrr"] for line in read_history(tmp_path) if line["kind"] == "validation"}
    assert metadata["mrr"] == max(validations.values()) == trainer.progress.best_mrr
    assert validations[metadata["step"]] == metadata["mrr"]
    assert torch.equal(tensors["entities"], trainer.entities.weight) == (metadata["step"] == 200)


def test_patience_ends_a_training_that_no_longer_gains(ring: Graph, tmp_path: Path) -> None:
    trainer = train(ring, tmp_path, "training.steps=5000", "training.lr=1e-9", "validation.patience=2")
    assert trainer.progress.step == 60


class Notes(Watcher):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.at_most: list[bool] = []

    def noticed(self, message: str) -> None:
        self.messages.append(message)

    def report(self, report: Report) -> None:
        self.at_most.append(report.at_most)


def test_a_plateau_ends_after_its_drops_with_the_best_weights_and_says_why(ring: Graph, tmp_path: Path) -> None:
    settings = ["training.steps=5000", "training.lr=0.05", "training.schedule=plateau", "validation.patience=2"]
    trainer, notes = Trainer(ring, recipe("training.device=cpu", *settings), tmp_path), Notes()
    trainer.run(notes)
    assert trainer.progress.step < 5000
    assert trainer.progress.drops == DROPS
    told = [note for note in notes.messages if "guessing gives" not in note]
    assert ["the learning rate is" in note for note in told] == [True] * DROPS + [False]
    assert f"the weights of step {trainer.progress.best_step:,}" in notes.messages[-1]
    assert all(notes.at_most)
    lr = [line["lr"] for line in read_history(tmp_path) if line["kind"] == "report"]
    assert lr[0] == 0.05
    assert lr[-1] == pytest.approx(0.05 / 27)


def test_a_drop_continues_from_the_best_weights(ring: Graph, tmp_path: Path) -> None:
    settings = ["training.lr=1e-9", "training.schedule=plateau", "validation.patience=1", "training.steps=5000"]
    trainer = Trainer(ring, recipe(*settings), tmp_path)
    with pytest.raises(Exception, match="stopped at step 40"):
        trainer.run(StopAt(trainer, 40))
    best, metadata = read_tensors(tmp_path / MODEL_FILE)
    assert metadata["step"] == 20
    assert trainer.progress.drops == 1
    assert torch.equal(trainer.entities.weight, best["entities"])


def test_a_training_at_chance_says_so(ring: Graph, tmp_path: Path) -> None:
    settings = ["training.steps=200", "training.lr=1e-9", "model.name=distmult"]
    trainer, notes = Trainer(ring, recipe(*settings), tmp_path), Notes()
    trainer.run(notes)
    assert len([note for note in notes.messages if "guessing gives" in note]) == 1


def test_a_training_that_overfits_says_so_unless_it_ends_by_itself() -> None:
    state = TrainingState(step=100, best_mrr=0.5, best_step=60, stale=2)
    assert "has not improved since step 60" in trouble(state, 60, ends_itself=False)
    assert trouble(state, 60, ends_itself=True) == ""
    assert trouble(replace(state, stale=1), 60, ends_itself=False) == ""


def test_a_loss_that_is_no_number_stops_with_a_remedy_and_keeps_weights(ring: Graph, tmp_path: Path) -> None:
    trainer = Trainer(ring, recipe("model.name=distmult", "training.lr=1e30"), tmp_path)
    with pytest.raises(Diverged, match=r"at step \d+.*training\.lr="):
        trainer.run()
    tensors, _ = read_tensors(tmp_path / MODEL_FILE)
    assert tensors["entities"].isfinite().all()


def test_without_validation_triples_the_last_weights_are_kept(tmp_path: Path) -> None:
    trainer = train(make_graph([(0, 0, 1), (1, 0, 2), (2, 0, 3)]), tmp_path)
    assert torch.equal(read_tensors(tmp_path / MODEL_FILE)[0]["entities"], trainer.entities.weight)


def test_the_state_on_disk_is_that_of_the_last_step(ring: Graph, tmp_path: Path) -> None:
    trainer = train(ring, tmp_path)
    tensors, progress = load_state(tmp_path)
    assert progress.step == 60
    assert torch.equal(tensors["entities"], trainer.entities.weight)
    assert torch.equal(tensors["relations.v"], trainer.relations.state["v"])


def test_gradients_are_recorded_at_the_start_of_each_epoch_when_asked(ring: Graph, tmp_path: Path) -> None:
    asked = ["training.steps=25", "training.batch=40", "model.k=8", "validation.record_gradients=true"]
    trainer = Trainer(ring, Recipe().with_settings(asked), tmp_path)
    trainer.run()
    lines = [line for line in read_history(tmp_path) if line["kind"] == "gradients"]
    assert [line["step"] for line in lines] == list(range(1, 26, trainer.batches.steps_per_epoch))
    assert all(line["entities"] > 0 and line["relations"] > 0 for line in lines)
