from dataclasses import replace

import numpy as np
import pyarrow as pa

from transher.graph.graph import Graph
from transher.graph.relation_types import RELATION_TYPES, relation_types
from transher.graph.vocabulary import Vocabulary


def test_types_follow_the_cut_at_one_and_a_half_over_all_splits():
    triples = [
        (0, 0, 1), (2, 0, 3),  # one to one
        (0, 1, 1), (0, 1, 2), (0, 1, 3),  # one head, many tails
        (1, 2, 0), (2, 2, 0), (3, 2, 0),  # many heads, one tail
        (0, 3, 1), (0, 3, 2), (1, 3, 1), (1, 3, 2),
        (0, 5, 1), (0, 5, 2), (3, 5, 0),  # tph is 3/2 exactly: N; hpt is 1
        (0, 6, 1), (0, 6, 2), (3, 6, 0), (2, 6, 3),  # tph is 4/3
    ]  # fmt: skip
    entities, relations = (
        Vocabulary(kind, pa.array([str(i) for i in range(count)])) for kind, count in (("entity", 4), ("relation", 7))
    )
    rows = np.array(triples, dtype=np.int32)
    graph = Graph("types", entities, relations, train=rows[::2], valid=rows[1::4], test=rows[3::4])
    expected = ["1-1", "1-N", "N-1", "N-N", "1-1", "1-N", "1-1"]  # relation 4 has no triples
    assert [RELATION_TYPES[code] for code in relation_types(graph)] == expected
    other = replace(graph, train=rows, valid=rows[:0], test=rows[:0])
    np.testing.assert_array_equal(relation_types(other), relation_types(graph))
