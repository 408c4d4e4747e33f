"""The same hundred questions through Python, the command line, HTTP, export, explain and complete: one answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from click.testing import CliRunner
from starlette.testclient import TestClient
from tests.evaluation.small_graphs import random_graph

import transher
from transher.answering.answers import Answering, Question
from transher.cli.main import main
from transher.graph.graph import Graph
from transher.models import MODELS
from transher.models.embeddings import Embeddings
from transher.runs.export import answers_table
from transher.serving.api import create_app
from transher.serving.server import load_explorers
from transher.training.recipe import Recipe

QUICK = Recipe().with_settings(
    ["model.k=16", "training.steps=60", "training.batch=128", "training.negatives=16", "validation.every=60",
     "validation.sample=50"]
)  # fmt: skip
TOP = 7
Row = tuple[str, str, str, float, float, bool]


class Surfaces:
    """One run behind every surface. Answers are rows of identifiers, score, probability and whether known."""

    def __init__(self, run: transher.Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.client = TestClient(create_app(load_explorers([run.folder])), base_url="http://localhost")
        self.worth: dict[tuple[str, ...], tuple[float, float]] = {}  # of every triple that was seen
        rng = np.random.default_rng(0)
        entities, relations = run.graph.entities.identifiers, run.graph.relations.identifiers
        chosen = rng.choice(len(run.graph.test), min(25, len(run.graph.test)), replace=False)
        self.places = [int(place) for place in chosen]
        self.triples = [
            (entities[head].as_py(), relations[relation].as_py(), entities[tail].as_py())
            for head, relation, tail in run.graph.test[chosen].tolist()
        ]

    def python(self, **given: str) -> list[Row]:
        return self.rows(self.run.predict(**given, top=TOP))  # type: ignore[arg-type]

    def command_line(self, **given: str) -> list[Row]:
        options = [part for name, value in given.items() for part in (f"--{name}", value)]
        arguments = ["predict", str(self.run.folder), *options, "--top", str(TOP), "--json"]
        return self.rows(pd.DataFrame(json.loads(_invoke(arguments))))

    def http(self, path: str, **query: Any) -> list[Row]:
        found = self.client.get(f"/api/runs/{self.run.folder.name}/{path}", params=query).json()
        return [
            self.seen(tuple(fact[part]["identifier"] for part in ("head", "relation", "tail")), fact)
            for fact in found["answers"]
        ]

    def rows(self, table: pd.DataFrame) -> list[Row]:
        names = ["head_id", "relation_id", "tail_id"]
        return [self.seen(tuple(row[name] for name in names), row) for row in table.to_dict("records")]

    def seen(self, triple: tuple[str, ...], worth: Mapping[Any, Any]) -> Row:
        """A row; whatever was asked, the triple must be worth the same as before."""
        score, probability = float(worth["score"]), float(worth["probability"])
        assert self.worth.setdefault(triple, (score, probability)) == (score, probability), triple
        head, relation, tail = triple
        return head, relation, tail, score, probability, bool(worth.get("known", False))


@pytest.fixture(scope="module", params=["world", "reciprocal", "blend"])
def surfaces(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Surfaces:
    folder = tmp_path_factory.mktemp(request.param)
    graph = transher.load_graph("world") if request.param == "world" else random_graph(4, 40, 4, 700)
    settings = [] if request.param == "world" else ["model.reciprocal=true"]
    run = transher.train(graph, folder / "run", recipe=QUICK.with_settings(settings))
    if request.param == "blend":
        rules = transher.train(graph, folder / "rules", model="rules", settings={"mining.minutes": 0.02})
        run = transher.blend([run, rules], folder / "blend")
    assert run.scorer.sides_differ == (request.param != "world")
    return Surfaces(run, folder)


def test_heads_tails_and_relations(surfaces: Surfaces) -> None:
    exported = answers_table(surfaces.run, TOP).to_pandas()
    exported.columns = [f"{name}_id" if name in ("head", "relation", "tail") else name for name in exported.columns]
    for place, (head, relation, tail) in zip(surfaces.places, surfaces.triples, strict=True):
        own = exported[exported["test_triple"] == place]
        for side, given in (
            ("tail", {"head": head, "relation": relation}),
            ("head", {"relation": relation, "tail": tail}),
            ("relation", {"head": head, "tail": tail}),
        ):
            answers = surfaces.python(**given)
            assert surfaces.http("predict", **given, top=TOP) == answers
            if side != "relation":
                assert surfaces.rows(own[own["side"] == side]) == answers
                probabilities = [row[4] for row in answers]
                assert probabilities == sorted(probabilities, reverse=True)
                ids = [surfaces.run.graph.relations.find(row[1]) for row in answers if row[0] == row[2]]
                assert surfaces.run.graph.known.has_loops[ids].all()
    for head, relation, tail in surfaces.triples:
        for given in (
            {"head": head, "relation": relation},
            {"relation": relation, "tail": tail},
            {"head": head, "tail": tail},
        ):
            assert surfaces.command_line(**given) == surfaces.python(**given)


def test_a_question_has_the_same_answers_in_a_batch(surfaces: Surfaces) -> None:
    queries = [{"head": head, "relation": relation, "top": 1 + place} for place, (head, relation, _) in
               enumerate(surfaces.triples)]  # fmt: skip
    url = f"/api/runs/{surfaces.run.folder.name}/batch"
    answers = surfaces.client.post(url, json={"queries": queries}).json()["answers"]
    for query, found in zip(queries, answers, strict=True):
        alone = surfaces.http("predict", **query)
        together = [(fact["tail"]["identifier"], fact["score"], fact["probability"]) for fact in found["answers"]]
        assert together == [(row[2], row[3], row[4]) for row in alone]


def test_scores(surfaces: Surfaces) -> None:
    file = surfaces.folder / "asked.tsv"
    file.write_text("".join("\t".join(triple) + "\n" for triple in surfaces.triples))
    shown = json.loads(_invoke(["score", str(surfaces.run.folder), str(file), "--json"]))
    scored = surfaces.run.score(surfaces.triples).to_dict("records")
    for triple, one, other in zip(surfaces.triples, scored, shown, strict=True):
        row = surfaces.seen(triple, one)
        assert surfaces.seen(triple, other) == row
        (found,) = surfaces.http("score", head=triple[0], relation=triple[1], tail=triple[2])
        assert found == (*row[:5], True)


def test_evidence(surfaces: Surfaces) -> None:
    for head, relation, tail in surfaces.triples[:10]:
        evidence = surfaces.run.explain(head, relation, tail).to_dict()
        served = surfaces.client.get(
            f"/api/runs/{surfaces.run.folder.name}/explain", params={"head": head, "relation": relation, "tail": tail}
        ).json()
        options = ["--head", head, "--relation", relation, "--tail", tail]
        shown = json.loads(_invoke(["explain", str(surfaces.run.folder), *options, "--json"]))
        surfaces.seen((head, relation, tail), evidence)
        for side, given in (
            ("tail", {"head": head, "relation": relation}),
            ("head", {"relation": relation, "tail": tail}),
        ):
            others = [row for row in surfaces.python(**given) if row[:3] != (head, relation, tail)][:5]
            for found in (evidence, served, shown):
                alternatives = [other for other in found["alternatives"] if other["side"] == side]
                rows = [surfaces.seen(tuple(other["fact"]["identifiers"]), other) for other in alternatives]
                assert rows == others


def test_missing_facts(surfaces: Surfaces) -> None:
    file = surfaces.folder / "facts.parquet"
    cases = [("relation", "relation/missing", relation) for relation in sorted({r for _, r, _ in surfaces.triples})[:5]]
    cases += [("entity", "entity/predicted", head) for head, _, _ in surfaces.triples[:5]]
    found_some = False
    for option, path, name in cases:
        wanted: dict[str, Any] = {"relations": [name]} if option == "relation" else {"entity": name}
        facts = surfaces.rows(surfaces.run.complete(**wanted, best=20))
        assert surfaces.http(path, name=name, top=20) == facts
        _invoke(
            [
                "complete",
                str(surfaces.run.folder),
                "--out",
                str(file),
                "--overwrite",
                f"--{option}",
                name,
                "--best",
                "20",
            ]
        )
        assert surfaces.rows(pq.read_table(file).to_pandas()) == facts
        for head, relation, tail, *_, known in facts[:3]:
            (scored,) = surfaces.http("score", head=head, relation=relation, tail=tail)
            assert scored[:3] == (head, relation, tail)
            assert not known
            found_some = True
    assert found_some
    everything = surfaces.rows(surfaces.run.complete(best=20))
    _invoke(["complete", str(surfaces.run.folder), "--out", str(file), "--overwrite", "--best", "20"])
    assert surfaces.rows(pq.read_table(file).to_pandas()) == everything


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_triple_has_the_same_score_from_every_side(name: str, reciprocal: bool, ring: Graph) -> None:
    torch.manual_seed(0)
    model = MODELS[name](36, 6.0)
    relations = torch.randn(3 * (1 + reciprocal), model.relation_width)
    answering = Answering(Embeddings(model, torch.randn(60, model.entity_width), relations, reciprocal), ring, None)
    scores: dict[tuple[int, ...], float] = {}
    for entity in range(0, 60, 7):
        for relation in range(3):
            for question in (Question(entity, relation, None, 60), Question(None, relation, entity, 60)):
                (answers,) = answering.answer([question])
                for triple, score in zip(answers.triples.tolist(), answers.scores.tolist(), strict=True):
                    assert scores.setdefault(tuple(triple), score) == score
    triples = np.array(list(scores))
    assert answering.judged(triples).scores.tolist() == list(scores.values())
    assert [answering.judged(triples[i : i + 1]).scores.item() for i in range(50)] == list(scores.values())[:50]


def _invoke(arguments: list[str]) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout
