from __future__ import annotations

from dataclasses import replace

import transher
from transher.graph.notebook import html_summary


def test_names_are_escaped() -> None:
    page = html_summary("<b>", {"a & b": "<script>"}, "x < y")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "a &amp; b" in page


def test_a_graph_is_shown_in_two_lines() -> None:
    graph = transher.load_graph([(f"e{i}", "<next>", f"e{i + 1}") for i in range(100)])
    assert repr(graph).splitlines() == [
        "<Graph 'graph': 101 entities, 1 relations",
        f" {len(graph.train)} train, {len(graph.valid)} valid, {len(graph.test)} test>",
    ]
    assert repr(graph.entities) == "<Vocabulary: 101 of kind entity: e0, e1, e10, …>"
    page = graph._repr_html_()
    assert "101 entities" in page
    assert "&lt;next&gt;" in page
    assert "<next>" not in page
    assert "such as" not in replace(graph, train=graph.train[:0])._repr_html_()
