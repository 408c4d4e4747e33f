"""What the words of new triples mean."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from transher.graph import load_graph
from transher.graph.growing import grow


def test_a_new_word_is_not_taken_for_an_iri_that_ends_in_it(tmp_path: Path) -> None:
    (tmp_path / "train.nt").write_text("<http://x/v#section> <http://x/v#part> <http://x/v#page> .\n")
    graph = load_graph(tmp_path)
    triples = pa.table({"head": ["section"], "relation": ["http://x/v#part"], "tail": ["http://x/v#page"]})
    growth = grow(graph, triples)
    assert growth.examples() == ["section"]
    assert growth.new_relations == 0
    assert growth.graph.entities.labels(range(3)) == ["page", "v#section", "section"]
    assert growth.graph.entities.find("section") == 2


def test_names_of_new_triples_may_lack_their_accents(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("c1\tin\tc2\n")
    (tmp_path / "entity_names.tsv").write_text("c1\tSão Paulo\nc2\tBrasil\n")
    triples = pa.table({"head": ["brasil"], "relation": ["in"], "tail": ["sao paulo"]})
    growth = grow(load_graph(tmp_path), triples)
    assert growth.new_entities == 0
    assert growth.added.tolist() == [[1, 0, 0]]
