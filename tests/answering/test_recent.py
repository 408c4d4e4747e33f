from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.answering.towns import LIVES_IN, PEOPLE, Noisy, towns

from transher.answering.fitting import fit_judge
from transher.answering.recent import FOLDS, Recent, fold_of
from transher.answering.storage import load_judge, save_judge
from transher.graph.graph import Graph, Triples

BIG, SMALL = 700, 701  # tails


def later_facts() -> Triples:
    """Forty heads have the big tail, three the small one."""
    return np.array([(head, 0, BIG) for head in range(40)] + [(head, 0, SMALL) for head in range(3)], np.int32)


def test_an_answer_counts_the_later_facts_of_other_folds_only() -> None:
    later = later_facts()
    recent = Recent.of(later, relation_count=2)
    heads = np.arange(60)
    asked = np.stack([heads, np.zeros(60, int), np.full(60, BIG)], 1)
    expected = [int((fold_of(later[:40, 0]) != fold).sum()) for fold in fold_of(heads)]
    np.testing.assert_array_equal(recent.of_others(asked), expected)
    assert not recent.of_others(np.array([[0, 1, BIG], [0, 0, 5]])).any()  # another relation, another tail


def test_all_heads_of_a_fold_see_the_same_so_no_fact_gives_itself_away() -> None:
    recent = Recent.of(later_facts(), relation_count=2)
    heads = np.arange(200)
    seen = recent.of_others(np.stack([heads, np.zeros(200, int), np.full(200, BIG)], 1))
    for fold in range(FOLDS):
        assert len(np.unique(seen[fold_of(heads) == fold])) == 1


def test_frequent_answers_are_those_of_several_facts() -> None:
    recent = Recent.of(later_facts(), relation_count=2)
    assert recent.frequent(0).tolist() == [BIG]
    assert recent.frequent(1).tolist() == []


@pytest.fixture(scope="module")
def world() -> tuple[Graph, Noisy, Triples]:
    return towns()


def test_a_wave_of_additions_raises_the_probability_of_more_of_the_same(
    world: tuple[Graph, Noisy, Triples], tmp_path: Path
) -> None:
    """Later, half of the people turn out to live in one more town, which their scores do not tell."""
    graph, scorer, _ = world
    town = int(graph.train[graph.train[:, 1] == LIVES_IN][0, 2])
    followed = np.arange(0, PEOPLE, 2)
    wave = np.stack([followed, np.full(len(followed), LIVES_IN), np.full(len(followed), town)], 1).astype(np.int32)
    wave = wave[~graph.known.has(wave)]
    judge = fit_judge(scorer, graph, later=wave, about=followed)
    assert judge is not None
    others = np.stack([np.arange(1, PEOPLE, 2), *np.tile([[LIVES_IN], [town]], PEOPLE // 2)], 1)
    others = others[~graph.known.has(others)]
    elsewhere = others.copy()
    elsewhere[:, 2] = (town - PEOPLE + 1) % 5 + PEOPLE
    assert judge.log_odds(others).mean() > judge.log_odds(elsewhere).mean() + 1
    save_judge(tmp_path, judge)
    again = load_judge(tmp_path, scorer, graph, None)
    assert again is not None
    np.testing.assert_array_equal(again.log_odds(others), judge.log_odds(others))
