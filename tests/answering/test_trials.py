from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.answering.towns import LIES_IN, LIVES_IN, MEMBER_OF, PEOPLE, Noisy, towns

from transher.answering import backtest as backtest_module
from transher.answering.answers import Answering
from transher.answering.backtest import backtest
from transher.answering.fitting import fit_judge
from transher.answering.missing import Search, wanted_facts
from transher.answering.trials import hits, report_calibration, without_test
from transher.errors import UsageError
from transher.graph.graph import Graph, Triples
from transher.graph.implied import Implied


@pytest.fixture(scope="module")
def world() -> tuple[Graph, Noisy, Triples]:
    return towns(seed=1)


@pytest.fixture(scope="module")
def answering(world: tuple[Graph, Noisy, Triples]) -> Answering:
    graph, scorer, _ = world
    return Answering(scorer, graph, fit_judge(scorer, graph))


def test_test_triples_are_hidden_from_the_trial(answering: Answering) -> None:
    blind = without_test(answering)
    assert not blind.known.has(answering.graph.test).any()
    head, relation, tail = answering.graph.test[0].tolist()
    found, _ = blind.best(np.array([head]), np.array([relation]), "tail", 600, "hide")
    assert tail in found.triples[:, 2].tolist()


def test_the_report_counts_what_held_and_beats_the_usual_calibration(answering: Answering) -> None:
    report = report_calibration(answering)
    assert [promise.facts for promise in report.best] == [100, 1000, 10000]
    assert report.best[0].holds > 3 * report.best[-1].holds
    assert report.hidden == len(answering.graph.test)
    assert report.shown.brier < report.former.brier
    assert report.shown.log_loss < report.former.log_loss
    # As many facts are missing besides: they count as wrong, so up to a half of what holds.
    assert report.first_answers.holds - 0.05 < report.first_answers.probability < 2 * report.first_answers.holds + 0.05


def test_without_a_judge_or_test_triples_there_is_no_trial(answering: Answering) -> None:
    graph, judge = answering.graph, answering.judge
    with pytest.raises(UsageError, match="no validation triples"):
        report_calibration(Answering(answering.scorer, graph, None))
    with pytest.raises(UsageError, match="no test triples"):
        report_calibration(Answering(answering.scorer, replace(graph, test=graph.test[:0]), judge))


def test_later_facts_are_found_more_often_than_by_popularity_and_by_chance(
    world: tuple[Graph, Noisy, Triples], answering: Answering
) -> None:
    _, _, missing = world
    found = backtest(answering, missing)
    assert found.later == len(missing)
    first = found.best[0]
    assert first.judge > 3 * first.popularity > 0
    assert first.popularity > first.chance > 0
    assert found.came == sum(round(tenth.holds * tenth.facts) for tenth in found.tenths)
    assert 0 < found.mrr < 1


def test_popularity_is_what_its_order_comes_to_on_average(
    world: tuple[Graph, Noisy, Triples], answering: Answering
) -> None:
    """The most frequent tail first: of its open heads, any of them in any order."""
    graph, _, missing = world
    only = missing[missing[:, 1] == LIVES_IN]
    popular = backtest_module._popularity(graph, only, None, None)
    town, heads = int(popular.tails[0]), graph.ends.eligible(LIVES_IN)
    pairs = np.stack([heads, np.full(len(heads), LIVES_IN), np.full(len(heads), town)], 1)
    pairs = pairs[~graph.known.has(pairs)]
    came = (only[:, 2] == town).sum()
    assert popular.pairs[0] == len(pairs)
    assert popular.share(10) == pytest.approx(came / len(pairs))


def test_only_facts_about_the_entities_that_were_followed_count(
    world: tuple[Graph, Noisy, Triples], answering: Answering
) -> None:
    _, _, missing = world
    followed = np.arange(0, PEOPLE, 3)
    found = backtest(answering, missing, about=followed)
    assert found.later == (np.isin(missing[:, 0], followed)).sum()
    assert found.left_out == len(missing) - found.later


def test_facts_that_the_graph_has_cannot_be_tried(answering: Answering) -> None:
    with pytest.raises(UsageError, match="nothing can be tried"):
        backtest(answering, answering.graph.train[:5])


def test_hits_are_the_facts_that_were_hidden(answering: Answering) -> None:
    facts = answering.judged(np.concatenate([answering.graph.test[:3], answering.graph.train[:2]]))
    assert hits(answering.graph, facts, answering.graph.test).tolist() == [True, True, True, False, False]


def test_what_follows_from_known_facts_is_left_out_on_request(
    world: tuple[Graph, Noisy, Triples], answering: Answering
) -> None:
    """A member of a club is, along where the club lies, a member of something in that town."""
    graph, _, missing = world
    names = graph.relations.identifiers.to_pylist()
    implied = Implied(graph.known, [LIES_IN])

    def found(*implied_by: str) -> Triples:
        wanted = wanted_facts(graph, [names[MEMBER_OF]], best=20_000, any_entity=True, implied_by=implied_by)
        return Search(answering, wanted).facts().triples

    everything, news = found(), found(names[LIES_IN])
    assert implied.has(everything).any()
    assert not implied.has(news).any()
    follows = [(h, r, t) for h, r, t in everything.tolist() if r == MEMBER_OF and implied.has(np.array([[h, r, t]]))[0]]
    later = np.concatenate([missing, np.array(follows[:5], np.int32)])
    assert backtest(answering, later, implied_by=[names[LIES_IN]]).later == len(missing)
    judge = fit_judge(answering.scorer, graph, implied_by=[LIES_IN])
    assert judge is not None
    assert judge.verdicts.hidden == len(graph.valid)  # none of them follows
