"""A scorer that is no embedding at all is evaluated, asked, completed, explained and served."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from tests.evaluation.small_graphs import random_graph
from torch import Tensor

import transher
from transher.graph.graph import SIDES, Graph, Side
from transher.scorer import Scorer
from transher.serving.api import create_app
from transher.serving.explorer import Explorer
from transher.training.recipe import Recipe


class Frequency(Scorer):
    """An entity's score is how often it is an answer to the relation, whoever is given."""

    def __init__(self, graph: Graph) -> None:
        self._counts = {side: torch.zeros(len(graph.relations), len(graph.entities)) for side in SIDES}
        for head, relation, tail in graph.train.tolist():
            self._counts["head"][relation, head] += 1
            self._counts["tail"][relation, tail] += 1

    entity_count = property(lambda self: self._counts["head"].shape[1])
    relation_count = property(lambda self: len(self._counts["head"]))
    sides_differ = property(lambda self: True)

    def scores(self, anchors: Tensor, relations: Tensor, side: Side, candidates: Tensor | None = None) -> Tensor:
        found = self._counts[side][relations]
        return found if candidates is None else found[:, candidates]


@pytest.fixture
def run(tmp_path: Path) -> transher.Run:
    graph = random_graph(seed=2, entities=30, relations=3, count=400)
    return transher.Run(tmp_path, graph, Recipe(), Frequency(graph), None)


def test_it_is_evaluated(run: transher.Run) -> None:
    assert 0 < run.evaluate().overall.mrr < 1


def test_it_is_asked(run: transher.Run) -> None:
    answers = run.predict(head="entity 4", relation="relation 1", top=30)
    counts = np.bincount(run.graph.train[run.graph.train[:, 1] == 1, 2], minlength=30)
    own = np.bincount(run.graph.train[run.graph.train[:, 1] == 1, 0], minlength=30)[4]
    ids = [run.graph.entities.find(name) for name in answers["tail"]]
    assert answers["score"].tolist() == ((counts[ids] + own) / 2).tolist()
    assert answers["probability"].is_monotonic_decreasing


def test_it_is_completed(run: transher.Run) -> None:
    facts = run.complete(best=5000)
    known = {tuple(triple) for triple in run.graph.all_triples.tolist()}
    assert len(facts) + len(known) >= 3 * 30 * 29
    assert facts["probability"].is_monotonic_decreasing
    best = run.complete(best=10)
    assert best["score"].tolist() == facts["score"].tolist()[:10]
    assert best["head"].tolist() == facts["head"].tolist()[:10]


def test_it_is_explained(run: transher.Run) -> None:
    evidence = run.explain("entity 4", "relation 1", "entity 5")
    assert evidence.rules
    assert evidence.alternatives
    assert evidence.similar == []
    assert evidence.influences == []
    assert evidence.headline()


def test_it_is_served(run: transher.Run) -> None:
    client = TestClient(create_app({"frequency": Explorer("frequency", run)}), base_url="http://localhost")
    api = "/api/runs/frequency"
    assert client.get("/api/runs").json()[0]["model"] == "Frequency"
    query = {"head": "entity 4", "relation": "relation 1"}
    answers = client.get(f"{api}/predict", params=query).json()["answers"]
    assert [fact["score"] for fact in answers] == run.predict(**query)["score"].tolist()  # type: ignore[arg-type]
    for path, text in (("entity", "entity 4"), ("entity/predicted", "entity 4"), ("entity/similar", "entity 4"),
                       ("relation", "relation 1"), ("relation/missing", "relation 1")):  # fmt: skip
        assert client.get(f"{api}/{path}", params={"name": text}).status_code == 200
    assert client.get(f"{api}/explain", params=query | {"tail": "entity 5"}).status_code == 200
    refused = client.get(f"{api}/map")
    assert refused.status_code == 422
    assert "no embeddings" in refused.json()["reason"]
