from __future__ import annotations

import json

from tests.cli.conftest import call


def test_benchmarks_are_listed() -> None:
    assert "world" in call("datasets").stdout
    names = {row["name"] for row in json.loads(call("datasets", "--json").stdout)}
    assert names == {"world", "fb15k-237", "db100k", "yago37", "wn18rr", "ogbl-wikikg2", "ogbl-biokg"}


def test_statistics_are_shown() -> None:
    assert "borders" in call("stats", "world").stdout
    assert json.loads(call("stats", "world", "--json").stdout)["entities"] > 100
