"""What `write_facts` writes in any format is found again, whatever the names are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import make_graph

from transher.answering.predicted import Predicted
from transher.answering.reading import Earlier
from transher.answering.writing import ENDINGS, write_facts
from transher.errors import InputError, UsageError
from transher.graph.graph import Graph
from transher.graph.vocabulary import Vocabulary

NAMES = ["plain", "with space", "=1+1", "@home", "tab\there", "two\nlines", 'a "quote"', "http://a/x", "_:b1",
         "naïve, too", "100", "", "null", "NA", "urn:transher:entity:own", '"hi"@en']  # fmt: skip


def named_graph() -> Graph:
    """A ring of every name, under relations with such names."""
    count = len(NAMES)
    triples = [(i, i % 3, (i + 1) % count) for i in range(count)]
    graph = make_graph(triples)
    return Graph(
        "named", Vocabulary("entity", pa.array(NAMES)), Vocabulary("relation", pa.array(["knows", "=is", "http://a/r"])),
        graph.train, graph.valid, graph.test,
    )  # fmt: skip


def predicted(triples: np.ndarray) -> Predicted:
    nothing = np.zeros(len(triples))
    return Predicted(triples.astype(np.int32), nothing.astype(np.float32), nothing, nothing > 0)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=25)
@given(chosen=st.sets(st.integers(0, len(NAMES) - 1)))
def test_facts_that_were_written_are_known_again(
    chosen: set[int], ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    graph = named_graph()
    path = tmp_path_factory.mktemp("facts") / f"facts{ending}"
    write_facts(path, graph, predicted(graph.train[sorted(chosen)]))
    earlier = Earlier(path, graph)
    assert set(np.flatnonzero(earlier.has(graph.train)).tolist()) == chosen
    assert len(earlier) == len(chosen)
    assert not earlier.has(graph.train[:, [2, 1, 0]]).any()


@pytest.mark.parametrize("ending", ENDINGS)
def test_names_that_the_graph_does_not_have_are_left_out(ending: str, tmp_path: Path) -> None:
    large, small = make_graph([(0, 0, 1), (1, 0, 9)]), make_graph([(0, 0, 1)])
    path = tmp_path / f"facts{ending}"
    write_facts(path, large, predicted(large.train))
    earlier = Earlier(path, small)
    assert len(earlier) == 1
    assert earlier.has(small.train).all()


@pytest.mark.parametrize("ending", ENDINGS)
def test_another_file_is_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"facts{ending}"
    with pytest.raises(InputError, match="no such file"):
        Earlier(path, named_graph())
    path.write_bytes(b"something\telse\n1\t2\n")
    with pytest.raises(InputError, match=f"facts{ending}: is not the file of a completion"):
        Earlier(path, named_graph())
    with pytest.raises(UsageError, match="ending"):
        Earlier(tmp_path / "facts.xlsx", named_graph())
