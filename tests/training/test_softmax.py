"""The softmax over all entities as a training step: gradients, memory, batches of queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import make_graph
from torch import Tensor
from torch.nn.functional import cross_entropy

from transher.errors import Interrupted, UsageError
from transher.graph.graph import SIDES, Graph
from transher.kernels import softmax
from transher.models import build_model
from transher.models.embeddings import asked_as
from transher.models.initialisation import initial_tables
from transher.training.queries import QueryBatches
from transher.training.recipe import Recipe
from transher.training.softmax import SoftmaxStep
from transher.training.table import AdagradTable
from transher.training.trainer import Trainer
from transher.training.watcher import Report, Watcher

DOT_MODELS = ["complex", "distmult", "rescal", "hole", "seek"]
ALL = {
    "model.name": "complex",
    "model.k": 8,
    "model.gamma": 2.0,
    "training.loss": "cross-entropy",
    "training.negatives": "all",
    "training.weighting": "none",
    "training.optimizer": "adagrad",
    "training.lr": 0.1,
}
# Queries with one and with several answers on both sides, one triple twice.
SMALL = make_graph(
    [(0, 0, 1), (0, 0, 2), (0, 0, 3), (4, 0, 1), (1, 1, 4), (2, 1, 4), (3, 1, 4), (3, 1, 0), (3, 1, 0)], entities=6
)


def recipe_of(**settings: Any) -> Recipe:
    return Recipe().with_settings(ALL | {key.replace("__", "."): value for key, value in settings.items()})


def step_of(graph: Graph, recipe: Recipe) -> SoftmaxStep:
    model = build_model(recipe.model)
    rows = len(graph.relations) * (2 if recipe.model.reciprocal else 1)
    tables = initial_tables(model, len(graph.entities), rows, "U_U_U", "code", seed=0)
    batches = QueryBatches(graph, recipe.training, recipe.model.reciprocal)
    return SoftmaxStep(model, recipe.training, batches, *(AdagradTable(table) for table in tables))


def dense_loss(step: SoftmaxStep, graph: Graph, recipe: Recipe, entities: Tensor, relations: Tensor) -> Tensor:
    """The mean over all triples of both sides, triple by triple, from the definition."""
    model, settings = step.model, recipe.training
    losses = []
    for side in SIDES:
        anchor, answer = (0, 2) if side == "tail" else (2, 0)
        triples = torch.from_numpy(graph.train.astype(np.int64))
        rows, asked = asked_as(triples[:, 1], side, len(graph.relations), recipe.model.reciprocal)
        h, r, t = entities[triples[:, anchor]], relations[rows], entities[triples[:, answer]]
        scores = model.cross(model.query(h, r, asked), entities)
        loss = cross_entropy(scores, triples[:, answer], reduction="none")
        loss = loss + settings.n3 * sum(model.moduli(part).pow(3).sum(1) for part in (h, r, t))
        if settings.relation_prediction:
            head, tail = (h, t) if asked == "tail" else (t, h)
            per_relation = [
                model.pairs(model.query(head, row.expand(len(head), -1), "tail"), tail) for row in relations
            ]
            loss = loss + settings.relation_prediction * cross_entropy(
                torch.stack(per_relation, 1), rows, reduction="none"
            )
        losses.append(loss)
    return torch.cat(losses).mean()


@pytest.mark.parametrize("held", [1, 1 << 20])
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("model", DOT_MODELS)
def test_a_step_follows_the_gradient_of_the_loss_as_it_is_defined(
    model: str, reciprocal: bool, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax.softmax_gradients, "__defaults__", ("float32", held, None))
    recipe = recipe_of(
        model__name=model, model__reciprocal=reciprocal, training__n3=0.3, training__relation_prediction=0.7
    )
    step = step_of(SMALL, recipe)
    entities, relations = (table.weight.clone().requires_grad_() for table in (step.entities, step.relations))
    expected = dense_loss(step, SMALL, recipe, entities, relations)
    expected.backward()
    value, found = step._gradients(step.batches.at(0), 0)
    assert value == pytest.approx(expected.item(), rel=1e-5)
    assert found.entity_ids is None
    torch.testing.assert_close(found.entities, entities.grad, rtol=1e-4, atol=1e-6)
    assert relations.grad is not None
    torch.testing.assert_close(found.relations, relations.grad[found.relation_ids], rtol=1e-4, atol=1e-6)


def test_all_queries_of_both_sides_are_seen_once_before_any_repeats_with_all_their_answers(ring: Graph) -> None:
    batches = QueryBatches(ring, recipe_of(training__batch=20).training, reciprocal=True)
    seen, weight = [], 0.0
    for step in range(batches.steps_per_epoch):
        batch = batches.at(step)
        owners = torch.repeat_interleave(torch.arange(len(batch.anchors)), batch.offsets.diff())
        queries = torch.stack([batch.anchors, batch.relations], 1)
        assert len(queries.unique(dim=0)) == len(queries)
        seen += torch.cat([queries[owners], batch.answers[:, None]], 1).tolist()
        weight += float(batch.weights.sum())
    head, relation, tail = ring.train.T
    backwards = np.stack([tail, relation + len(ring.relations), head], 1)
    assert sorted(seen) == sorted([*ring.train.tolist(), *backwards.tolist()])
    assert weight == pytest.approx(batches.steps_per_epoch, rel=1e-4)


def test_weights_of_the_graph_count() -> None:
    weighted = make_graph([(0, 0, 1), (0, 0, 2)], train_weights=np.array([3, 1], dtype=np.float32))
    batch = QueryBatches(weighted, recipe_of(training__batch=100).training, reciprocal=True).at(0)
    by_answer = dict(zip(batch.answers.tolist(), batch.weights.tolist(), strict=True))
    assert by_answer[1] == pytest.approx(3 * by_answer[2])


def test_a_batch_depends_on_its_step_alone(ring: Graph) -> None:
    settings = recipe_of(training__batch=20).training
    first, second = (QueryBatches(ring, settings, reciprocal=True) for _ in range(2))
    for step in range(30):
        first.at(step)
    later, direct = first.at(30), second.at(30)
    assert torch.equal(later.anchors, direct.anchors)
    assert torch.equal(later.answers, direct.answers)


class _StopsAt(Watcher):
    def __init__(self, step: int) -> None:
        self.step = step
        self.trainer: Trainer | None = None

    def report(self, report: Report) -> None:
        if report.step == self.step and self.trainer is not None:
            self.trainer.stop()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_resumed_training_reaches_the_same_weights_to_the_bit(ring: Graph, precision: str, tmp_path: Path) -> None:
    recipe = recipe_of(
        model__reciprocal=True,
        training__steps=40,
        training__batch=30,
        training__n3=0.01,
        training__relation_prediction=0.5,
        training__precision=precision,
        validation__every=20,
        validation__report_every=1,
    )
    folders = [tmp_path / name for name in ("whole", "parts")]
    for folder in folders:
        folder.mkdir()
    whole = Trainer(ring, recipe, folders[0])
    whole.run()
    watcher = _StopsAt(17)
    watcher.trainer = Trainer(ring, recipe, folders[1])
    with pytest.raises(Interrupted):
        watcher.trainer.run(watcher)
    parts = Trainer(ring, recipe, folders[1], resume=True)
    assert parts.progress.step == 17
    parts.run()
    assert torch.equal(whole.entities.weight, parts.entities.weight)
    assert torch.equal(whole.relations.weight, parts.relations.weight)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model.name": "transher"}, "whose score is a distance"),
        ({"training.loss": "margin"}, "works with training.loss = cross-entropy"),
        ({"training.typed": True}, "works with training.typed = false"),
        ({"training.negatives": 0}, "or all"),
        ({"training.negatives": "some"}, "or all"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Recipe().with_settings(ALL | settings)
