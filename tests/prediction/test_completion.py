from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pyoxigraph
import pytest
import torch
from click.testing import CliRunner
from tests.evaluation.small_graphs import random_graph, whole_number_scorer

import transher
from transher.cli import main
from transher.errors import InputError, UsageError
from transher.graph import load_graph
from transher.graph.graph import Graph
from transher.models.distmult import DistMult
from transher.models.scorer import Scorer
from transher.prediction import completing, completion
from transher.prediction.completing import complete_to_file
from transher.prediction.completion import complete_relation, wanted_facts
from transher.prediction.facts import Facts, write_facts
from transher.training.checkpoints import save_model
from transher.training.recipe import Recipe
from transher.training.trainer import Interrupted


@pytest.fixture
def run(tmp_path: Path) -> transher.Run:
    """A model with random weights: completion must find its best facts, good or not."""
    graph = random_graph(seed=5, entities=25, relations=3, count=300)
    rng = torch.Generator().manual_seed(0)
    scorer = Scorer(DistMult(4, 1.0), torch.randn(25, 4, generator=rng), torch.randn(3, 4, generator=rng), 3)
    save_model(tmp_path, scorer.entity_weights, scorer.relation_weights, 0, None)
    return transher.Run(tmp_path, graph, Recipe(), scorer, None)


def brute_force(run: transher.Run, base_rate: float) -> list[tuple[float, int, int, int]]:
    known = {tuple(triple) for triple in run.graph.all_triples.tolist()}
    loops = {relation for head, relation, tail in known if head == tail}
    assert run.calibration is not None
    found = []
    for relation in range(3):
        for head in range(25):
            for tail in range(25):
                if (head, relation, tail) in known or (head == tail and relation not in loops):
                    continue
                score = run.scorer.score_triples(torch.tensor([[head, relation, tail]]))
                odds = run.calibration.logits(score.numpy(), relation, base_rate=base_rate)
                found.append((-float(odds[0]), head, relation, tail))
    return sorted(found)


@pytest.mark.parametrize("best", [1, 17, 5000])
def test_the_best_facts_are_those_of_brute_force(run: transher.Run, best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_SCORES", 40)  # many units, several chunks of tails
    found = run.complete(best=best, any_entity=True, base_rate=0.1)
    wanted = brute_force(run, 0.1)[:best]
    assert found["probability"].tolist() == pytest.approx([1 / (1 + np.exp(odds)) for odds, *_ in wanted], abs=1e-5)
    assert len({tuple(row) for row in found[["head", "relation", "tail"]].itertuples(index=False)}) == len(wanted)
    assert found["rank"].tolist() == list(range(1, len(wanted) + 1))


def test_no_known_fact_is_found_again(run: transher.Run) -> None:
    known = {tuple(triple) for triple in run.graph.all_triples.tolist()}
    found = run.complete(best=5000)
    assert len(found)
    for head, relation, tail in found[["head_id", "relation_id", "tail_id"]].itertuples(index=False):
        ids = run.graph.entities.find(head), run.graph.relations.find(relation), run.graph.entities.find(tail)
        assert ids not in known


def test_only_what_is_above_a_probability_is_kept(run: transher.Run) -> None:
    everything = run.complete(best=5000)
    middle = float(everything["probability"].median())
    above = run.complete(above=middle)
    assert above["probability"].min() >= middle - 1e-9
    assert len(above) == int((everything["probability"] >= middle).sum())


def test_chosen_relations_only(run: transher.Run) -> None:
    assert set(run.complete(relations=["relation 1"], best=50)["relation"]) == {"relation 1"}
    pd.testing.assert_frame_equal(
        complete_relation(run, "relation 1", best=50), run.complete(relations=["relation 1"], best=50)
    )


def test_a_stopped_search_goes_on_to_the_same_facts(
    run: transher.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "_HEADS", 4)
    wanted = wanted_facts(run, best=40)
    whole = complete_to_file(run, tmp_path / "whole.tsv", wanted)
    calls = 0

    def interrupt(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt

    out = tmp_path / "stopped.tsv"
    with pytest.raises(Interrupted, match="the same command goes on"):
        complete_to_file(run, out, wanted, progress=interrupt)
    assert not out.exists()
    seen: list[int] = []
    summary = complete_to_file(run, out, wanted, progress=lambda done, total: seen.append(done))
    assert summary.resumed
    assert seen[0] > whole.pairs / 10
    assert out.read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if "state" in path.name) == []


def test_the_state_of_another_request_is_not_used(run: transher.Run, tmp_path: Path) -> None:
    out = tmp_path / "facts.tsv"
    state = tmp_path / ".facts.tsv.state"
    completing._save(state, completion.Standing(1, 5, Facts.none()), "another")
    assert not complete_to_file(run, out, wanted_facts(run, best=5)).resumed
    state.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="Delete it"):
        complete_to_file(run, out, wanted_facts(run, best=5))


def test_every_format_has_the_same_facts(run: transher.Run, tmp_path: Path) -> None:
    wanted = wanted_facts(run, best=12)
    for ending in ("tsv", "csv", "parquet", "nt"):
        complete_to_file(run, tmp_path / f"facts.{ending}", wanted)
    tsv = pd.read_csv(tmp_path / "facts.tsv", sep="\t")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "facts.csv"), tsv)
    parquet = pq.read_table(tmp_path / "facts.parquet").to_pandas()
    assert parquet["tail_id"].tolist() == tsv["tail_id"].tolist()
    rdf = list(pyoxigraph.parse(path=tmp_path / "facts.nt"))
    complete_to_file(run, tmp_path / "reasons.nt", wanted, evidence=True)
    plain, reasons = ((tmp_path / name).read_text().splitlines() for name in ("facts.nt", "reasons.nt"))
    assert all(more.startswith(f"{less}, ") for less, more in zip(plain, reasons, strict=True))
    assert [quad.object.value for quad in rdf] == [
        f"urn:transher:entity:{name.replace(' ', '%20')}" for name in tsv["tail_id"]
    ]


def test_rdf_keeps_iris_blank_nodes_and_literals(tmp_path: Path) -> None:
    source = tmp_path / "source.nt"
    source.write_text(
        "<http://a/x> <http://a/knows> _:b1 .\n_:b1 <http://a/knows> <http://a/x> .\n"
        '<http://a/x> <http://a/says> "hi \\"you\\""@en .\n'
    )
    graph: Graph = load_graph(source, literals="keep", fractions=(1, 0, 0))
    facts = Facts(graph.train, np.zeros(len(graph.train), np.float32), np.zeros(len(graph.train)))
    write_facts(tmp_path / "out.nt", graph, facts)
    again = load_graph(tmp_path / "out.nt", literals="keep", fractions=(1, 0, 0))
    assert again.entities.identifiers.equals(graph.entities.identifiers)
    assert {tuple(triple) for triple in again.train.tolist()} == {tuple(triple) for triple in graph.train.tolist()}


def test_mistakes_are_told_before_the_work(run: transher.Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.parquet"):
        complete_to_file(run, tmp_path / "facts.xlsx", wanted_facts(run))
    for wrong in ({"best": 0}, {"above": 1.5}, {"relations": ["relation 77"]}):
        with pytest.raises(UsageError):
            wanted_facts(run, **wrong)  # type: ignore[arg-type]
    graph = random_graph()
    bare = replace(graph, valid=graph.valid[:0])
    with pytest.raises(UsageError, match="no validation triples"):
        transher.Run(tmp_path, bare, Recipe(), whole_number_scorer(graph), None).complete()


def test_the_command_writes_facts_with_their_evidence(tmp_path: Path) -> None:
    quick = ["model.k=16", "training.steps=60", "training.batch=64", "training.negatives=16", "validation.every=60",
             "validation.sample=50"]  # fmt: skip
    folder = tmp_path / "run"
    transher.train(transher.load_graph("world"), folder, recipe=Recipe().with_settings(quick))
    out = tmp_path / "new.tsv"
    arguments = ["complete", str(folder), "--out", str(out), "--relation", "borders", "--best", "5", "--evidence"]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["facts"] == 5
    table = pd.read_csv(out, sep="\t")
    assert set(table["relation"]) == {"borders"}
    assert table["evidence"].str.len().min() > 10
    assert "5 new facts" in CliRunner().invoke(main, arguments).stdout
