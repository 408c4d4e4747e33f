from __future__ import annotations

from typing import Any

import numpy as np
from tests.conftest import make_graph

from transher.graph.ends import Ends

CITIES, COUNTRIES, ZONES = range(30), range(30, 34), range(34, 38)


def ends_of(types: bool = False) -> Ends:
    """Every city has a time zone (r1); all but the last three lie in a country (r0)."""
    triples = [(city, 0, 30 + city % 4) for city in list(CITIES)[:-3]]
    triples += [(city, 1, 34 + city % 3) for city in CITIES]
    more: dict[str, Any] = {}
    if types:
        kinds = np.array([0] * 30 + [1] * 4 + [2] * 4, dtype=np.int32)
        more = {"entity_types": kinds, "type_names": ("city", "country", "zone")}
    return make_graph(triples, entities=38, **more).ends


def test_an_entity_of_a_kindred_end_fits_though_it_was_never_there() -> None:
    ends = ends_of()
    assert ends.fitting(0).tolist() == list(CITIES)
    assert ends.fitting(2).tolist() == list(COUNTRIES)
    assert 37 not in ends.fitting(3)


def test_where_there_are_types_they_decide() -> None:
    ends = ends_of(types=True)
    assert ends.fitting(3).tolist() == list(ZONES)
    assert ends.fitting(0).tolist() == list(CITIES)


def test_who_has_a_single_answer_already_is_not_eligible() -> None:
    ends = ends_of()
    assert ends.eligible(0).tolist() == list(CITIES)[-3:]
    assert ends.eligible(2).tolist() == list(COUNTRIES)
    assert ends.single.tolist() == [1, 1, 0, 0]
    assert ends.eligible_pairs.tolist() == [3 * 4, 0]
    assert ends.of(28).tolist() == [0]
    assert ends.of(0).tolist() == []


def test_few_anchors_do_not_make_a_single_answer() -> None:
    assert make_graph([(0, 0, 1), (2, 0, 3)]).ends.single.tolist() == [0, 0]


def test_an_entity_goes_with_itself_where_the_relation_has_such_facts() -> None:
    ends = make_graph([(0, 0, 1), (2, 1, 2)]).ends
    assert ends.plausible(np.array([[0, 0, 0], [0, 0, 2], [1, 1, 1]])).tolist() == [False, True, True]


def test_a_second_answer_of_a_single_answer_relation_is_taken_and_a_known_one_is_not() -> None:
    graph = make_graph([(i, 0, 20 + i % 3) for i in range(12)])  # each of twelve heads has one tail
    asked = np.array([(0, 0, 20), (0, 0, 21), (12, 0, 21)])
    assert graph.ends.taken(asked).tolist() == [False, True, False]
    assert graph.ends.fits(np.array([(0, 0, 21), (0, 0, 5), (20, 0, 21)])).tolist() == [True, False, False]
    assert 0 < graph.ends.second_answers[0] < 0.05


def test_who_stands_where_nothing_of_an_end_does_is_hardly_alike_though_it_fits() -> None:
    """Countries have time zones as cities have, so they fit the head of r0; but they border each other (r2), which no
    city does."""
    triples = [(city, 0, 30 + city % 4) for city in list(CITIES)[:-3]]
    triples += [(place, 1, 34 + place % 3) for place in (*CITIES, *COUNTRIES)]
    triples += [(30, 2, 31), (31, 2, 32), (32, 2, 33), (33, 2, 30)]
    ends = make_graph(triples, entities=38).ends
    assert set(COUNTRIES) <= set(ends.fitting(0).tolist())
    city, settled, country, zone = ends.alike_at(np.zeros(4, np.int64), np.array([29, 0, 30, 35])).tolist()
    assert settled == 1
    assert city > 0.75
    assert 0 < country < 0.2
    assert zone == 0
