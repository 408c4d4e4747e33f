from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from tests.conftest import make_graph

import transher
from transher.answering.evidence import fact_in_words
from transher.answering.influence import influences
from transher.answering.paths import path_rules
from transher.cli.main import main
from transher.graph.graph import Graph
from transher.models.embeddings import Embeddings
from transher.training.recipe import Recipe

QUICK = Recipe().with_settings(
    ["model.k=16", "training.steps=300", "training.batch=64", "training.negatives=16", "training.lr=0.02",
     "validation.every=100"]
)  # fmt: skip
LIVES_IN, LIES_IN, CITIZEN, HOME_OF, LIKES = range(5)
PEOPLE, CITIES, COUNTRIES = 40, 10, 5


def planted() -> Graph:
    """People (0–39) live in cities (40–49), which lie in countries (50–54); a person is a citizen of the country of
    the city: the planted rule. r3 is r0 turned round. Likes are noise."""
    rng = np.random.default_rng(0)
    triples = []
    for person in range(PEOPLE):
        city = PEOPLE + person % CITIES
        country = PEOPLE + CITIES + person % COUNTRIES
        triples += [(person, LIVES_IN, city), (city, HOME_OF, person), (person, CITIZEN, country)]
        triples += [(person, LIKES, int(other)) for other in rng.integers(PEOPLE, size=3) if other != person]
    triples += [(PEOPLE + city, LIES_IN, PEOPLE + CITIES + city % COUNTRIES) for city in range(CITIES)]
    triples = sorted(set(triples))
    held_out = [triple for triple in triples if triple[1] in (CITIZEN, HOME_OF) and triple[0] % 7 == 3]
    return make_graph([triple for triple in triples if triple not in held_out], held_out[::2], held_out[1::2])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> transher.Run:
    return transher.train(planted(), tmp_path_factory.mktemp("runs") / "planted", recipe=QUICK)


def test_a_planted_composition_comes_first(run: transher.Run) -> None:
    evidence = run.explain("e010", "r2", "e050")
    best = evidence.rules[0]
    assert best.rule == "x r2 y ⇐ x r0 z, z r1 y"
    assert best.kind == "composed"
    assert [fact_in_words(fact) for fact in best.examples[0]] == ["e010 —r0→ e040", "e040 —r1→ e050"]
    assert best.confidence == pytest.approx(best.support / (best.pairs + 5))
    assert best.confidence > 0.7
    assert best.pairs >= PEOPLE - 2


def test_a_planted_inverse_comes_first(run: transher.Run) -> None:
    best = run.explain("e040", "r3", "e010").rules[0]
    assert (best.kind, best.rule) == ("inverse", "x r3 y ⇐ y r0 x")
    assert best.confidence == pytest.approx(best.support / (best.pairs + 5))
    assert best.confidence > 0.7


def test_a_symmetric_relation_is_called_so() -> None:
    pairs = [(i, i + 1) for i in range(0, 40, 2)]
    graph = make_graph([(a, 0, b) for a, b in pairs] + [(b, 0, a) for a, b in pairs[:-1]])
    rules = path_rules(graph.known, pairs[-1][1], 0, pairs[-1][0])
    assert rules[0].examples[0].ends == (1,)
    assert rules[0].support == 38
    assert rules[0].pairs == 38  # the asked pair itself is no evidence


def test_the_asked_triple_is_no_evidence_for_itself() -> None:
    rules = path_rules(make_graph([(0, 0, 1), (2, 0, 3), (3, 0, 4)]).known, 0, 0, 1)
    assert rules == []


def test_paths_of_three_steps_are_found_in_both_directions() -> None:
    graph = make_graph([(0, 0, 1), (2, 1, 1), (2, 2, 3)], entities=4)
    (rule,) = path_rules(graph.known, 0, 0, 3)
    assert rule.examples[0].entities == (0, 1, 2, 3)
    assert rule.examples[0].ends == (0, 1 + 3, 2)


def test_the_rules_are_those_that_the_judge_knows(run: transher.Run) -> None:
    """The run is one of vectors, with rules beside them."""
    mined = run.answering.rules
    assert mined is not None
    strongest = mined.reasons(np.array([[10, CITIZEN, 50]]), 5)
    shown = run.explain("e010", "r2", "e050").rules
    assert [rule.confidence for rule in shown] == strongest.confidences[0, : int(strongest.counts[0])].tolist()


def test_reasons_say_what_moved_the_probability(run: transher.Run) -> None:
    likely, unlikely = (run.explain("e010", "r2", tail, limit=20) for tail in ("e050", "e051"))
    assert math.prod(because.factor for because in likely.because) > 1
    assert likely.probability is not None
    assert unlikely.probability is not None
    assert likely.probability > unlikely.probability
    for evidence in (likely, unlikely):
        assert evidence.because
        sizes = [abs(math.log(because.factor)) for because in evidence.because]
        assert sizes == sorted(sizes, reverse=True)
    assert any(because.sentence.startswith("Rules support it") and because.factor > 1 for because in likely.because)


def test_similar_entities_have_the_same_fact(run: transher.Run) -> None:
    evidence = run.explain("e010", "r2", "e050")
    known = {tuple(triple) for triple in run.graph.all_triples.tolist()}
    assert evidence.similar
    for similar in evidence.similar:
        head, relation, tail = (int(part[1:]) for part in similar.fact.identifiers)
        assert (head, relation, tail) in known
        assert "e010" not in (similar.fact.head,) or similar.side == "tail"
    for side in ("head", "tail"):
        sizes = [similar.similarity for similar in evidence.similar if similar.side == side]
        assert sizes == sorted(sizes, reverse=True)
    assert evidence.similar[0].side == "head"


def test_influence_is_what_a_step_on_the_triple_does_to_the_score(run: transher.Run) -> None:
    """Take one small step of gradient ascent on log σ(f(z)) in the shared rows and look at the asked score."""
    asked = (10, CITIZEN, 50)
    triples, sizes = influences(run.trained("a test")[0], run.graph.trained, asked)
    step = 1e-4
    for place in torch.argsort(-sizes.abs())[:3].tolist():
        triple = torch.from_numpy(triples[place : place + 1].astype(np.int64))
        entities = run.trained("a test")[0].entity_weights.clone().requires_grad_()
        relations = run.trained("a test")[0].relation_weights.clone().requires_grad_()
        model = run.trained("a test")[0].model
        seen = model.entities(entities)
        query = model.query(seen[triple[:, 0]], relations[triple[:, 1]], "tail")
        torch.nn.functional.logsigmoid(model.pairs(query, seen[triple[:, 2]])).sum().backward()
        assert entities.grad is not None
        assert relations.grad is not None
        moved = Embeddings(
            model, (entities + step * entities.grad).detach(), (relations + step * relations.grad).detach()
        )
        before, after = (float(scorer.score_triples(torch.tensor([asked]))) for scorer in (run.scorer, moved))
        assert (after - before) / step == pytest.approx(float(sizes[place]), rel=0.15, abs=0.05)


def test_ranks_and_alternatives_are_those_of_predict(run: transher.Run) -> None:
    evidence = run.explain("e010", "r2", "e051")
    answers = run.predict(head="e010", relation="r2", top=60, known="hide")
    assert evidence.ranks["tail"] == 1 + answers["tail"].tolist().index("e051")
    marked = run.predict(head="e010", relation="r2", top=6)
    tails = [other.fact.tail for other in evidence.alternatives if other.side == "tail"]
    assert tails == [tail for tail in marked["tail"] if tail != "e051"][:5]


def test_evidence_as_json_and_in_words(run: transher.Run) -> None:
    asked = ["explain", str(run.folder), "--head", "e010", "--relation", "r2", "--tail", "e050"]
    shown = CliRunner().invoke(main, asked)
    assert shown.exit_code == 0, shown.output
    assert "x r2 y ⇐ x r0 z, z r1 y holds for" in shown.stdout
    assert "The graph has this fact" in shown.stdout
    assert "Why this probability" in shown.stdout
    assert re.search(r"This multiplies the odds by [\d.,]+\d\.", shown.stdout)
    found = json.loads(CliRunner().invoke(main, [*asked, "--json"]).stdout)
    assert found["rules"][0]["examples"][0][0]["identifiers"] == ["e010", "r0", "e040"]
    assert 0 <= found["probability"] <= 1
    assert found["because"][0].keys() == {"sentence", "factor"}
