from __future__ import annotations

import numpy as np
from tests.conftest import make_graph

from transher.graph.groups import Groups, entity_groups


def test_entities_are_grouped_by_type_or_by_where_they_stand() -> None:
    typed = make_graph([(0, 0, 1), (2, 0, 1)], entity_types=np.array([1, 0, 1]), type_names=("place", "person"))
    groups, names, what = entity_groups(typed)
    assert [names[group] for group in groups] == ["person", "place", "person"]
    assert what == "type"
    groups, names, _ = entity_groups(make_graph([(0, 0, 1), (2, 0, 1)], entities=4))
    assert [names[group] for group in groups[:3]] == ["head of r0", "tail of r0", "head of r0"]
    assert groups[3] == -1


def test_the_largest_groups_come_first_and_the_rest_is_in_none() -> None:
    groups = Groups(np.array([2, 1, 2, 0, 1, 2, -1]), ["one", "two", "three"], "number").largest(2)
    assert groups.names == ["three", "two"]
    assert groups.group_of.tolist() == [0, 1, 0, -1, 1, 0, -1]
