from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import make_graph

from transher.analysis.learned_patterns import composed, inverted, nearness, symmetric_shares
from transher.graph.graph import Graph

RANDOM = np.random.default_rng(0)
K = 16


def vectors(a: np.ndarray, c: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.stack([a, c, b], axis=-1)


def draw() -> np.ndarray:
    return RANDOM.normal(size=K)


def test_both_cases_of_symmetry_are_recognised() -> None:
    a, b = draw(), draw()
    for symmetric in (vectors(a, -a, b), vectors(a, a, np.zeros(K))):
        assert nearness(symmetric, inverted(symmetric)) == pytest.approx(1)
    mixed = vectors(a, np.where(np.arange(K) % 2, a, -a), np.where(np.arange(K) % 2, 0, b))
    assert nearness(mixed, inverted(mixed)) == pytest.approx(1)
    broken = vectors(a, a, b)
    assert nearness(broken, inverted(broken)) < 0.9


def test_an_inverse_may_be_scaled_by_another_factor_in_each_dimension() -> None:
    one = vectors(draw(), draw(), draw())
    other = inverted(one) * draw()[:, None]
    assert nearness(other, inverted(one)) == pytest.approx(1)
    assert nearness(vectors(draw(), draw(), draw()), inverted(one)) < 0.7


def test_a_composition_leads_where_the_two_steps_lead() -> None:
    first, second = vectors(draw(), draw(), draw()), vectors(draw(), draw(), draw())
    third = composed(first, second)
    head = draw()
    middle = (first[:, 0] * head + first[:, 2]) / first[:, 1]
    tail = (second[:, 0] * middle + second[:, 2]) / second[:, 1]
    assert third[:, 0] * head + third[:, 2] == pytest.approx(third[:, 1] * tail)
    assert nearness(third * draw()[:, None], third) == pytest.approx(1)


def test_shares_of_mirrored_triples() -> None:
    graph = make_graph([(0, 0, 1), (1, 0, 0), (2, 0, 3), (0, 1, 2), (3, 2, 3)])
    assert symmetric_shares(graph, graph.train).tolist() == pytest.approx([2 / 3, 0, 1])


def test_random_relations_are_far_from_any_pattern(ring: Graph) -> None:
    one, other = RANDOM.normal(size=(2, 5000, 3))
    assert nearness(one, other) == pytest.approx(1 - np.pi / 4, abs=0.03)
