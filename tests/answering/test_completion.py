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
from tests.conftest import make_graph
from tests.evaluation.small_graphs import random_graph, whole_number_scorer

import transher
from transher.answering import completion, missing
from transher.answering.missing import Search, Wanted, wanted_facts
from transher.answering.predicted import Predicted
from transher.answering.writing import write_facts
from transher.cli.main import main
from transher.errors import InputError, Interrupted, UsageError
from transher.graph import load_graph
from transher.graph.graph import Graph
from transher.models.distmult import DistMult
from transher.models.embeddings import Embeddings
from transher.training.checkpoints import save_model
from transher.training.recipe import Recipe


@pytest.fixture
def run(tmp_path: Path) -> transher.Run:
    """A model with random weights: completion must find its best facts, good or not."""
    graph = random_graph(seed=5, entities=25, relations=3, count=300)
    rng = torch.Generator().manual_seed(0)
    scorer = Embeddings(DistMult(4, 1.0), torch.randn(25, 4, generator=rng), torch.randn(3, 4, generator=rng))
    save_model(tmp_path, scorer.entity_weights, scorer.relation_weights, 0, None)
    return transher.Run(tmp_path, graph, Recipe(), scorer, None)


def brute_force(run: transher.Run, missing_share: float) -> list[float]:
    """The log odds of all that the graph lacks, best first, one triple at a time."""
    known = {tuple(triple) for triple in run.graph.all_triples.tolist()}
    loops = {relation for head, relation, tail in known if head == tail}
    assert run.judge is not None
    found = []
    for relation in range(3):
        for head in range(25):
            for tail in range(25):
                if (head, relation, tail) in known or (head == tail and relation not in loops):
                    continue
                found.append(float(run.judge.log_odds(np.array([[head, relation, tail]]), missing_share)[0]))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("best", [1, 17, 5000])
def test_the_best_facts_are_those_of_brute_force(run: transher.Run, best: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing, "_SCORES", 40)  # many units, several chunks of tails
    found = run.complete(best=best, any_entity=True, missing_share=0.1)
    wanted = brute_force(run, 0.1)[:best]
    assert found["probability"].tolist() == pytest.approx([1 / (1 + np.exp(-odds)) for odds in wanted], abs=1e-5)
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


def test_the_facts_about_an_entity_are_those_of_the_whole_graph_that_have_it(run: transher.Run) -> None:
    everything = run.complete(best=5000)
    own = everything[(everything["head"] == "entity 7") | (everything["tail"] == "entity 7")]
    found = run.complete(entity="entity 7", best=5000)
    columns = ["head", "relation", "tail", "score", "probability"]
    assert len(found) > 10
    assert found[columns].to_numpy().tolist() == own[columns].to_numpy().tolist()


def test_a_bounded_search_looks_at_the_best_connected_entities(run: transher.Run) -> None:
    everything = Search(run.answering, Wanted((0, 1, 2), 5000))
    part = Search(run.answering, Wanted((0, 1, 2), 5000, pairs=everything.pairs // 4))
    assert not everything.partial
    assert part.partial
    assert everything.pairs / 8 < part.pairs <= everything.pairs / 4
    found, whole = part.facts(), everything.facts()
    places = [np.flatnonzero((whole.triples == triple).all(1)).item() for triple in found.triples]
    assert found.scores.tolist() == whole.scores[places].tolist()
    degrees, seen = run.graph.known.degrees, np.unique(found.triples[:, 0])
    assert degrees[seen].min() >= np.sort(degrees)[::-1][len(seen) - 1]


def test_who_has_the_only_answer_of_a_relation_gets_no_other(tmp_path: Path) -> None:
    """Twenty entities with one capital each, one without: facts are missing of that one alone."""
    triples = [(i, 0, 30 + i) for i in range(20)] + [(i, 1, 60) for i in range(21)]
    graph = make_graph(triples[:-3], triples[-3:], entities=61)
    scorer = whole_number_scorer(graph, k=3)
    run = transher.Run(tmp_path, graph, Recipe(), scorer, None)
    assert set(run.complete(relations=["r0"], best=5000)["head"]) <= {"e020"}


def test_the_more_the_graph_lacks_the_more_probable_are_its_facts(run: transher.Run) -> None:
    asked = [("entity 3", "relation 1", "entity 4")]
    held_out = len(run.graph.valid) / (len(run.graph.known) + len(run.graph.valid))
    low, plain, high = (run.probabilities(asked, share).item() for share in (held_out / 9, None, 0.9))
    assert low < plain < high
    assert run.probabilities(asked, held_out).item() == pytest.approx(plain)
    for wrong in (0.0, 1.0, -1.0, 7.0):
        with pytest.raises(UsageError, match="missing share"):
            run.score(asked, missing_share=wrong)


def test_a_resumed_search_finds_the_same_facts(
    run: transher.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing, "_HEADS", 4)
    wanted = wanted_facts(run.graph, best=40)
    whole = run.complete_to_file(tmp_path / "whole.tsv", wanted)
    calls = 0

    def interrupt(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt

    out = tmp_path / "stopped.tsv"
    with pytest.raises(Interrupted, match="the same command resumes"):
        run.complete_to_file(out, wanted, progress=interrupt)
    assert not out.exists()
    seen: list[int] = []
    summary = run.complete_to_file(out, wanted, progress=lambda done, total: seen.append(done))
    assert summary.resumed
    assert seen[0] > whole.pairs / 10
    assert out.read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if "state" in path.name) == []


def test_the_state_of_another_request_is_not_used(run: transher.Run, tmp_path: Path) -> None:
    out = tmp_path / "facts.tsv"
    state = tmp_path / ".facts.tsv.state"
    completion._save(state, missing.Standing(1, 5, Predicted.none()), "another")
    assert not run.complete_to_file(out, wanted_facts(run.graph, best=5)).resumed
    state.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="Delete it"):
        run.complete_to_file(out, wanted_facts(run.graph, best=5), overwrite=True)


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet", "nt"])
def test_since_an_earlier_completion_only_the_others_are_given(
    ending: str, run: transher.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing, "_HEADS", 4)
    first, second = tmp_path / f"first.{ending}", tmp_path / "second.tsv"
    run.complete_to_file(first, wanted_facts(run.graph, best=30))
    everything = run.complete(best=70)
    names = ["head", "relation", "tail", "probability"]
    expected = everything[names].iloc[30:].to_numpy().tolist()
    assert run.complete(best=40, since=first)[names].to_numpy().tolist() == expected
    run.complete_to_file(second, wanted_facts(run.graph, best=40), since=first)
    written = pd.read_csv(second, sep="\t")
    assert written[names[:3]].to_numpy().tolist() == everything[names[:3]].iloc[30:].to_numpy().tolist()


def test_a_search_since_another_file_is_another_request(
    run: transher.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing, "_HEADS", 4)
    first, other, out = tmp_path / "first.tsv", tmp_path / "other.tsv", tmp_path / "new.tsv"
    wanted = wanted_facts(run.graph, best=40)
    run.complete_to_file(first, wanted_facts(run.graph, best=30))
    run.complete_to_file(other, wanted_facts(run.graph, best=3))

    def interrupt(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    for since, resumed in ((None, False), (other, False), (first, True)):
        with pytest.raises(Interrupted):
            run.complete_to_file(out, wanted, since=first, progress=interrupt)
        assert run.complete_to_file(out, wanted, since=since, overwrite=True).resumed == resumed
        out.unlink()


def test_the_summary_says_how_many_facts_are_expected_to_hold(run: transher.Run, tmp_path: Path) -> None:
    summary = run.complete_to_file(tmp_path / "facts.tsv", wanted_facts(run.graph, best=40))
    assert summary.expected == pytest.approx(run.complete(best=40)["probability"].sum())
    assert summary.to_dict()["expected"] == summary.expected


def test_every_format_has_the_same_facts(run: transher.Run, tmp_path: Path) -> None:
    wanted = wanted_facts(run.graph, best=12)
    for ending in ("tsv", "csv", "parquet", "nt"):
        run.complete_to_file(tmp_path / f"facts.{ending}", wanted)
    tsv = pd.read_csv(tmp_path / "facts.tsv", sep="\t")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "facts.csv"), tsv)
    parquet = pq.read_table(tmp_path / "facts.parquet").to_pandas()
    assert parquet["tail_id"].tolist() == tsv["tail_id"].tolist()
    rdf = list(pyoxigraph.parse(path=tmp_path / "facts.nt"))
    run.complete_to_file(tmp_path / "reasons.nt", wanted, evidence=True)
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
    nothing = np.zeros(len(graph.train))
    facts = Predicted(graph.train, nothing.astype(np.float32), nothing, nothing > 0)
    write_facts(tmp_path / "out.nt", graph, facts)
    again = load_graph(tmp_path / "out.nt", literals="keep", fractions=(1, 0, 0))
    assert again.entities.identifiers.equals(graph.entities.identifiers)
    assert {tuple(triple) for triple in again.train.tolist()} == {tuple(triple) for triple in graph.train.tolist()}


def test_mistakes_are_told_before_the_work(run: transher.Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.parquet"):
        run.complete_to_file(tmp_path / "facts.xlsx", wanted_facts(run.graph))
    for wrong in ({"best": 0}, {"above": 1.5}, {"relations": ["relation 77"]}):
        with pytest.raises(UsageError):
            wanted_facts(run.graph, **wrong)
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
    before = out.read_bytes()
    again = CliRunner().invoke(main, [*arguments, "--best", "3"])
    assert again.exit_code == 2
    assert "is there already" in again.stderr
    assert out.read_bytes() == before
    told = CliRunner().invoke(main, [*arguments, "--overwrite"]).stdout
    assert "5 new facts" in told
    assert "of them are expected to hold" in told
    again = CliRunner().invoke(main, [*arguments[:3], str(tmp_path / "more.tsv"), *arguments[4:], "--since", str(out)])
    assert again.exit_code == 0, again.output
    more = pd.read_csv(tmp_path / "more.tsv", sep="\t")
    assert not set(zip(more["head"], more["tail"], strict=True)) & set(zip(table["head"], table["tail"], strict=True))
