from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner
from tests.conftest import make_graph

import transher
from transher.cli.main import main
from transher.errors import UsageError
from transher.graph.graph import Graph
from transher.graph.growing import grow
from transher.runs.update import update, with_facts
from transher.training.checkpoints import load_state
from transher.training.placement import place
from transher.training.recipe import Recipe

QUICK = Recipe().with_settings(
    [
        "model.k=16",
        "training.steps=400",
        "training.batch=64",
        "training.negatives=16",
        "training.lr=0.02",
        "validation.every=200",
    ]
)


def table(*triples: tuple[str, str, str]) -> pa.Table:
    return pa.table(dict(zip(("head", "relation", "tail"), zip(*triples, strict=True), strict=True)))


def towns() -> Graph:
    """48 towns (0–47) in four countries (48–51), each with a currency (52–55) of its own. r0: lies in, r1: pays in."""
    triples = [(town, relation, first + town % 4) for town in range(48) for relation, first in ((0, 48), (1, 52))]
    held_out = triples[::12]
    return make_graph([triple for triple in triples if triple not in held_out], held_out[::2], held_out[1::2])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> transher.Run:
    return transher.train(towns(), tmp_path_factory.mktemp("runs") / "towns", recipe=QUICK)


NEW = table(("e900", "r0", "e049"), ("e901", "r2", "e900"), ("e001", "r2", "e900"), ("e001", "r0", "e049"))


def test_old_ids_stay_and_new_ones_follow(run: transher.Run) -> None:
    growth = grow(run.graph, NEW)
    count = len(run.graph.entities)
    assert growth.graph.entities.identifiers[:count].equals(run.graph.entities.identifiers)
    assert growth.graph.entities.identifiers[count:].to_pylist() == ["e900", "e901"]
    assert growth.graph.relations.identifiers.to_pylist() == ["r0", "r1", "r2"]
    assert growth.already_known == 1
    assert np.array_equal(growth.graph.train[: len(run.graph.train)], run.graph.train)
    assert growth.added.tolist() == [[count, 0, 49], [count + 1, 2, count], [1, 2, count]]


def test_labels_mean_the_entities_that_they_label() -> None:
    graph = transher.load_graph("world")
    growth = grow(graph, table(("France", "borders", "Japan"), ("country/FR", "speaks", "Elvish")))
    assert growth.new_entities == 1
    assert growth.added[0].tolist() == [graph.entities.find("France"), 0, graph.entities.find("Japan")]


def test_a_name_means_what_it_means_everywhere_else() -> None:
    graph = transher.load_graph("world")
    growth = grow(graph, table(("germany", "borders", "poland")))
    assert growth.new_entities == 0
    with pytest.raises(UsageError, match="2 entities are called 'Luxembourg'"):
        grow(graph, table(("Germany", "borders", "Luxembourg")))


def test_what_the_test_has_is_not_learnt(run: transher.Run) -> None:
    head, relation, tail = run.graph.test[0]
    growth = grow(run.graph, table((f"e{head:03}", f"r{relation}", f"e{tail:03}")))
    assert len(growth.added) == 0


def test_new_entities_get_the_type_of_those_in_their_place() -> None:
    graph = make_graph([(0, 0, 2), (1, 0, 2)], entity_types=np.array([1, 1, 0], dtype=np.int32), type_names=("a", "b"))
    types = grow(graph, table(("new", "r0", "e002"), ("e000", "r0", "other"))).graph.entity_types
    assert types is not None
    assert types.tolist() == [1, 1, 0, 1, 0]


def test_an_update_keeps_old_rows_in_place_and_answers_about_new_ones(run: transher.Run, tmp_path: Path) -> None:
    updated, report = update(run, NEW, tmp_path / "new", steps=20)
    assert (report.added, report.new_entities, report.new_relations, report.steps) == (3, 2, 1, 20)
    assert report.row_similarity is not None
    assert report.row_similarity > 0.98
    assert report.mrr_before == pytest.approx(run.evaluate().overall.mrr)
    assert report.mrr_after is not None
    assert report.mrr_after > 0.7  # not 1: e900 now competes with the held out towns of its country
    assert json.loads((tmp_path / "new" / "update.json").read_text()) == report.to_dict()
    assert "update.json" in (updated.manifest or {})["files"]
    # e900 lies where e001 lies, so it pays with the same.
    assert updated.predict(head="e900", relation="r1", top=1)["tail"].tolist() == ["e053"]
    assert updated.predict(head="e001", relation="r2", top=56)["known"].sum() == 1


def test_the_optimiser_goes_on_where_it_was(run: transher.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen before the first step, from the checkpoint that the training starts with."""

    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    monkeypatch.setattr("transher.runs.update.train_to_end", stop)
    with pytest.raises(Stopped):
        update(run, NEW, tmp_path / "new")
    old, progress = load_state(run.folder)
    new, started = load_state(tmp_path / "new")
    count = len(run.graph.entities)
    assert torch.equal(new["entities.m"][:count], old["entities.m"])
    assert torch.equal(new["relations.v"][:2], old["relations.v"])
    assert not new["entities.m"][count:].any()
    assert torch.equal(new["entities"][:count], run.trained("a test")[0].entity_weights)
    assert (started.step, started.updates) == (0, progress.updates)


def test_reciprocal_relations_keep_their_rows(tmp_path: Path) -> None:
    run = transher.train(
        towns(), tmp_path / "old", recipe=QUICK.with_settings(["model.reciprocal=true", "training.steps=40"])
    )
    placed = grow(run.graph, NEW)
    scorer = place(run.trained("a test")[0], run.graph, placed, run.trained("a test")[1], steps=3)
    assert len(scorer.relation_weights) == 6
    assert torch.equal(scorer.relation_weights[[0, 1, 3, 4]], run.trained("a test")[0].relation_weights)
    updated, _ = update(run, NEW, tmp_path / "new", steps=5)
    assert updated.scorer.relation_count == 3


def test_an_unknown_entity_is_placed_by_its_facts_and_nothing_else_moves(run: transher.Run) -> None:
    before = run.trained("a test")[0].entity_weights.clone()
    placed = with_facts(run, table(("somewhere", "r0", "e050")))
    assert placed.predict(head="somewhere", relation="r1", top=1)["tail"].tolist() == ["e054"]
    assert placed.predict(head="somewhere", relation="r0", top=1)["known"].tolist() == [True]
    assert torch.equal(placed.trained("a test")[0].entity_weights[:-1], before)
    assert torch.equal(run.trained("a test")[0].entity_weights, before)
    assert torch.equal(placed.trained("a test")[0].relation_weights, run.trained("a test")[0].relation_weights)


def test_mistakes_are_told(run: transher.Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="all of these triples already"):
        update(run, table(("e001", "r0", "e049")), tmp_path / "new")
    with pytest.raises(UsageError, match="no relation 'r9'"):
        with_facts(run, table(("somewhere", "r9", "e050")))
    with pytest.raises(UsageError, match="already there"):
        update(run, NEW, run.folder)


def test_the_commands(run: transher.Run, tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_text("somewhere\tr0\te050\n")
    asked = ["predict", str(run.folder), "--head", "somewhere", "--relation", "r1", "--with", str(facts)]
    answered = CliRunner().invoke(main, [*asked, "--json"])
    assert json.loads(answered.stdout)[0]["tail"] == "e054"
    assert "Placed by the facts given: somewhere" in answered.stderr
    asked = ["update", str(run.folder), str(facts), "--steps", "5", "--out"]
    shown = CliRunner().invoke(main, [*asked, str(tmp_path / "a")])
    assert shown.exit_code == 0, shown.output
    assert "new entities: 1 (somewhere)" in " ".join(shown.stdout.split())
    assert json.loads(CliRunner().invoke(main, [*asked, str(tmp_path / "b"), "--json"]).stdout)["new_entities"] == 1
