from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, logit
from tests.answering.towns import LIVES_IN, MEMBER_OF, PEOPLE, Noisy, towns

from transher.answering import fitting
from transher.answering.answers import Answering
from transher.answering.fitting import _fit_curve, _Learning, _Rows, fit_judge
from transher.answering.judge import Judge, raw_scores
from transher.answering.likelihood import HALF
from transher.answering.missing import Search, wanted_facts
from transher.answering.storage import JUDGE_FILE, LEVELS_FILE, load_judge, save_judge
from transher.answering.trials import hits, without_test
from transher.errors import InputError, UsageError
from transher.graph.graph import Graph, Triples


@pytest.fixture(scope="module")
def world() -> tuple[Graph, Noisy, Triples]:
    return towns()


@pytest.fixture(scope="module")
def judge(world: tuple[Graph, Noisy, Triples]) -> Judge:
    graph, scorer, _ = world
    fitted = fit_judge(scorer, graph)
    assert fitted is not None
    return fitted


def test_of_facts_that_nobody_told_about_as_many_hold_as_it_says(
    world: tuple[Graph, Noisy, Triples], judge: Judge
) -> None:
    """Validation triples were hidden, test triples and missing facts are what the judge has never heard of."""
    graph, scorer, missing = world
    blind = without_test(Answering(scorer, graph, judge))
    facts = Search(blind, wanted_facts(blind.graph, best=400)).facts()
    probabilities = facts.probabilities
    assert probabilities is not None
    held = hits(graph, facts, graph.test)
    # As many facts are missing altogether as were hidden; they count as wrong, so shares are lower by up to a half.
    either = held | hits(graph, facts, missing)
    assert held.mean() - 0.05 < probabilities.mean() < either.mean() + 0.05
    assert probabilities[:50].mean() > 0.3 > 3 * probabilities[300:].mean()


def test_the_probability_never_falls_when_a_score_rises(world: tuple[Graph, Noisy, Triples], judge: Judge) -> None:
    graph, _, _ = world
    describer = judge.describer
    rows = describer.first(graph.test[:50], graph.known)
    before = np.mean([raw_scores(booster, rows) for booster in judge._boosters], 0)
    for column, rises in enumerate(describer.rising_of(describer.names)):
        if rises:
            moved = rows.copy()
            moved[:, column] += 1.5
            after = np.mean([raw_scores(booster, moved) for booster in judge._boosters], 0)
            assert (after >= before - 1e-9).all()


def test_a_second_answer_of_a_single_valued_relation_is_improbable(
    world: tuple[Graph, Noisy, Triples], judge: Judge
) -> None:
    graph, _, _ = world
    settled = graph.train[graph.train[:, 1] == LIVES_IN][:100]
    others = settled.copy()
    others[:, 2] = PEOPLE + (others[:, 2] - PEOPLE + 1) % 15
    others = others[~graph.known.has(others)]
    assert expit(judge.log_odds(others)).max() < 0.05


def test_entities_that_do_not_fit_are_improbable(world: tuple[Graph, Noisy, Triples], judge: Judge) -> None:
    town_lives_in_town = np.array([[PEOPLE, LIVES_IN, PEOPLE + 1], [PEOPLE + 2, MEMBER_OF, PEOPLE + 3]])
    assert expit(judge.log_odds(town_lives_in_town)).max() < 0.05


def test_a_larger_missing_share_raises_every_probability_and_leaves_the_order(
    world: tuple[Graph, Noisy, Triples], judge: Judge
) -> None:
    graph, _, missing = world
    triples = np.concatenate([missing, graph.test])
    found = [judge.log_odds(triples, share) for share in (0.001, 0.05, 0.3, 0.9)]
    for less, more in pairwise(found):
        assert (less < more).all()
        # Equal scores may differ in the last digit: compare pairs that clearly differ.
        first, second = np.argsort(less)[::7][:-1], np.argsort(less)[::7][1:]
        apart = less[second] > less[first] + 1e-6
        assert (more[second] > more[first])[apart].all()
    assert np.isfinite(found[-1]).all()


def test_the_default_is_that_as_much_is_missing_as_was_hidden(
    judge: Judge, world: tuple[Graph, Noisy, Triples]
) -> None:
    graph, _, missing = world
    ratio = len(graph.valid) / len(graph.known)
    share = ratio / (1 + ratio)
    assert judge.log_odds(missing, share) == pytest.approx(judge.log_odds(missing), abs=1e-6)


def test_a_missing_share_is_between_0_and_1(judge: Judge) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        judge.log_odds(np.array([[0, 0, 600]]), 1.5)


def test_a_quick_look_keeps_what_is_best(world: tuple[Graph, Noisy, Triples], judge: Judge) -> None:
    graph, _, missing = world
    triples = np.concatenate([missing, graph.test])
    log_odds = judge.log_odds(triples)
    least = float(np.sort(log_odds)[-20])
    assert judge.describer.levels is not None
    scores = judge.describer.levels.score(triples)
    kept = judge.promising(triples, scores, least, len(triples))
    assert set(np.flatnonzero(log_odds >= least).tolist()) <= set(kept.tolist())
    assert len(judge.promising(triples, scores, -np.inf, 5)) == 5


def test_reasons_add_up_to_what_the_trees_say(world: tuple[Graph, Noisy, Triples], judge: Judge) -> None:
    _, _, missing = world
    reasons = judge.reasons(missing[0])
    assert [abs(reason.effect) for reason in reasons] == sorted(
        (abs(reason.effect) for reason in reasons), reverse=True
    )
    assert {reason.feature for reason in reasons} == set(judge.verdicts.features)


def test_facts_that_came_later_can_be_fitted_on(world: tuple[Graph, Noisy, Triples]) -> None:
    graph, scorer, missing = world
    later = fit_judge(scorer, graph, later=missing)
    assert later is not None
    assert later.verdicts.later
    wrong = np.stack([missing[:, 0], missing[:, 1], (missing[:, 2] + 1) % 600], 1)
    assert expit(later.log_odds(missing)).mean() > 5 * expit(later.log_odds(wrong)).mean()


def test_entities_whose_later_facts_are_not_given_say_nothing(world: tuple[Graph, Noisy, Triples]) -> None:
    """Half of the people were followed. Over all people, later facts would seem half as frequent as they are."""
    graph, scorer, missing = world
    followed = np.arange(0, PEOPLE, 2)
    given = missing[np.isin(missing[:, 0], followed)]
    among_all, among_followed = (
        fit_judge(scorer, graph, later=given),
        fit_judge(scorer, graph, later=given, about=followed),
    )
    assert among_all is not None
    assert among_followed is not None
    assert expit(among_followed.log_odds(given)).mean() > 1.2 * expit(among_all.log_odds(given)).mean()


def test_a_stored_judge_says_the_same_to_the_bit(
    world: tuple[Graph, Noisy, Triples], judge: Judge, tmp_path: Path
) -> None:
    graph, scorer, missing = world
    save_judge(tmp_path, judge)
    again = load_judge(tmp_path, scorer, graph, None)
    assert again is not None
    assert np.array_equal(again.log_odds(missing), judge.log_odds(missing))


@pytest.mark.parametrize(
    "broken",
    ["", "[]", "{", '{"format": 1}', '{"format": "one"}'],
)
def test_a_broken_judge_is_an_error_that_says_what_helps(
    broken: str, world: tuple[Graph, Noisy, Triples], judge: Judge, tmp_path: Path
) -> None:
    graph, scorer, _ = world
    save_judge(tmp_path, judge)
    (tmp_path / JUDGE_FILE).write_text(broken)
    with pytest.raises(InputError, match=r"not a judge of this run[\s\S]*delete it"):
        load_judge(tmp_path, scorer, graph, None)


def test_a_judge_of_a_later_version_is_told_as_such(
    world: tuple[Graph, Noisy, Triples], judge: Judge, tmp_path: Path
) -> None:
    graph, scorer, _ = world
    save_judge(tmp_path, judge)
    (tmp_path / JUDGE_FILE).write_text('{"format": 99, "unheard of": true}')
    with pytest.raises(InputError, match=r"later version[\s\S]*Update TranSHER"):
        load_judge(tmp_path, scorer, graph, None)


def test_levels_that_were_cut_short_are_an_error(
    world: tuple[Graph, Noisy, Triples], judge: Judge, tmp_path: Path
) -> None:
    graph, scorer, _ = world
    save_judge(tmp_path, judge)
    whole = (tmp_path / LEVELS_FILE).read_bytes()
    (tmp_path / LEVELS_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a judge of this run"):
        load_judge(tmp_path, scorer, graph, None)


def test_without_hidden_facts_there_is_no_judge(world: tuple[Graph, Noisy, Triples]) -> None:
    graph, scorer, _ = world
    assert fit_judge(scorer, replace(graph, valid=graph.valid[:0])) is None


def test_a_few_hidden_facts_are_enough_for_some_probability(world: tuple[Graph, Noisy, Triples]) -> None:
    graph, scorer, missing = world
    small = fit_judge(scorer, replace(graph, valid=graph.valid[:3]))
    assert small is not None
    assert np.isfinite(small.log_odds(missing)).all()


def test_trees_that_are_too_sure_at_the_top_are_calibrated_there_too() -> None:
    """Of what they are surest of they remember most, and few of the hidden facts lie there: not enough to tell more
    exactly than this."""
    generator = np.random.default_rng(0)
    raw = generator.normal(-4.0, 2.0, 200_000)
    raw[:600] = generator.uniform(1.0, 4.0, 600)
    truth = expit(np.minimum(raw, 0.0))
    holds = generator.random(len(raw)) < 0.5 * truth
    curve = _fit_curve(raw, np.ones(len(raw), np.bool_), holds, np.ones(len(raw)), 0.5)
    best = np.argsort(-raw)
    for count in (100, 1_000, 10_000):
        said = expit(curve(raw[best[:count]], np.ones(count, np.bool_)))
        assert said.mean() == pytest.approx(truth[best[:count]].mean(), abs=0.15)


def test_trees_doubt_pairs_that_all_were_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sure pairs tell next to nothing about how sure they are, so trees move towards them in small steps."""
    features = np.zeros((30_000, 1), np.float32)
    features[:1_000] = 1
    holds = np.arange(len(features)) < 1_100
    start = float(logit(holds.mean() / HALF))

    def said() -> float:
        booster = _Learning((False,), start, HALF).booster(_Rows(features, holds, np.ones(len(holds))))
        return float(expit(start + raw_scores(booster, features[:1]))[0])

    doubting = said()
    monkeypatch.setattr(fitting, "_FACTS_OF_DOUBT", np.inf)
    assert doubting < said() - 0.05
