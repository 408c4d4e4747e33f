from __future__ import annotations

import numpy as np
from tests.conftest import make_graph

from transher.graph.places import Places

CITIES, COUNTRIES, ZONES = range(30), range(30, 34), range(34, 38)


def places_of(types: bool = False) -> Places:
    """Every city has a time zone (r1); all but the last three lie in a country (r0)."""
    triples = [(city, 0, 30 + city % 4) for city in list(CITIES)[:-3]]
    triples += [(city, 1, 34 + city % 3) for city in CITIES]
    more = {}
    if types:
        kinds = np.array([0] * 30 + [1] * 4 + [2] * 4, dtype=np.int32)
        more = {"entity_types": kinds, "type_names": ("city", "country", "zone")}
    return Places(make_graph(triples, entities=38, **more))


def test_an_entity_of_a_kindred_place_fits_though_it_was_never_there() -> None:
    places = places_of()
    assert places.heads(0).tolist() == list(CITIES)
    assert places.tails(0).tolist() == list(COUNTRIES)
    assert 37 not in places.tails(1)


def test_where_there_are_types_they_decide() -> None:
    places = places_of(types=True)
    assert places.tails(1).tolist() == list(ZONES)
    assert places.heads(0).tolist() == list(CITIES)


def test_who_has_the_only_answer_is_taken() -> None:
    heads, tails = places_of().taken(0)
    assert heads.tolist() == list(CITIES)[:-3]
    assert tails.tolist() == []
