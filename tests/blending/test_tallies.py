"""What the answers that a candidate has already say of one more."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import make_graph
from tests.evaluation.small_graphs import random_graph

from transher.blending.tallies import LOOP, MISFIT, Tallies
from transher.graph.graph import SIDES, Graph, Side

PEOPLE, CITIES = 40, 8


@pytest.fixture(scope="module")
def births() -> Graph:
    """People, most with their one birthplace (relation 0), all of whom know the next one (relation 1); cities."""
    born = [(person, 0, PEOPLE + person % CITIES) for person in range(PEOPLE - 5)]
    knows = [(person, 1, (person + 1) % PEOPLE) for person in range(PEOPLE)]
    return make_graph(born + knows, [(PEOPLE - 1, 0, PEOPLE)], [(PEOPLE - 2, 0, PEOPLE + 1)])


@given(st.integers(0, 1_000), st.sampled_from(SIDES))
@settings(max_examples=20)
def test_all_entities_at_once_and_pairs_have_the_same_worth(seed: int, side: Side) -> None:
    tallies = Tallies.of(random_graph(seed, entities=12, relations=3, count=90))
    worth = torch.randn(tallies.ways()[0].shape, generator=torch.Generator().manual_seed(seed))
    anchors, relations = (torch.cartesian_prod(torch.arange(12), torch.arange(3))[:, column] for column in (0, 1))
    whole, some = torch.zeros(36, 12), torch.tensor([7, 2, 11, 3])
    tallies.add(whole, worth, anchors, relations, side, None)
    given, by = (ids.repeat_interleave(12) for ids in (anchors, relations))
    single = tallies.pairs(worth, given, by, side, torch.arange(12).repeat(36)).view(36, 12)
    assert torch.equal(whole, single)
    before = torch.rand(36, 4)
    after = before.clone()
    tallies.add(after, worth, anchors, relations, side, some)
    assert torch.equal(after, before + single[:, some])
    of_one = relations == 1
    after = before[of_one]
    tallies.add(after, worth, anchors[of_one], relations[of_one], side, some)
    assert torch.equal(after, before[of_one] + single[of_one][:, some])


def levels_of(graph: Graph, anchor: int, relation: int, side: Side, answers: list[int]) -> list[int]:
    """By a table whose entries are the numbers of their levels."""
    tallies = Tallies.of(graph)
    ends, levels = tallies.ways()[0].shape
    table = torch.arange(levels, dtype=torch.float32).expand(ends, -1)
    count = len(answers)
    given, by = torch.full((count,), anchor), torch.full((count,), relation)
    return tallies.pairs(table, given, by, side, torch.tensor(answers)).int().tolist()


def test_a_fact_does_not_speak_against_itself(births: Graph) -> None:
    born_here, born_elsewhere, unknown = 0, 1, PEOPLE - 1
    assert levels_of(births, PEOPLE, 0, "head", [born_here, born_elsewhere, unknown]) == [0, 1, 0]


def test_an_entity_that_does_not_fit_and_one_that_answers_about_itself_are_told_apart(births: Graph) -> None:
    assert levels_of(births, 3, 1, "tail", [3, 4, 5, PEOPLE]) == [LOOP, 0, 1, MISFIT]


def test_who_has_the_only_answer_is_far_behind_who_has_none(births: Graph) -> None:
    more = Tallies.of(births).ways()[0]
    assert float(more[0, 0] - more[0, 1]) > 1.5
    assert float(more[0, 0] - more[0, MISFIT]) > 1.5


def test_where_few_have_most_facts_these_are_ahead() -> None:
    generator = np.random.default_rng(0)
    answers = np.minimum(generator.zipf(1.6, 3_000), 60) + 3_000
    graph = make_graph([(head, 0, int(answer)) for head, answer in enumerate(answers)])
    more = Tallies.of(graph).ways()[0, 1]
    assert float(more[6] - more[1]) > 1.0


def test_more_is_as_good_and_turing_say() -> None:
    """Each of 50 heads has one, two or three of the tails: the rate after one answer is that of second ones."""
    triples = [(head, 0, 50 + tail) for head in range(50) for tail in range(1 + head % 3)]
    more = Tallies.of(make_graph(triples)).ways()[0, 0].exp()
    having = {count: sum(1 + head % 3 == count for head in range(50)) for count in (1, 2, 3)}
    for count in (1, 2):
        expected = (count + 1) * having[count + 1] / having[count]
        assert float(more[count]) == pytest.approx(expected, rel=0.15)


def test_a_graph_without_facts_of_a_relation_has_numbers() -> None:
    graph = make_graph([(0, 0, 1), (1, 0, 2)], [(0, 1, 2)])
    assert bool(Tallies.of(graph).ways().isfinite().all())
