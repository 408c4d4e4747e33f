from __future__ import annotations

from pathlib import Path

from benchmarks.probabilities import TABLES, with_tables

ROOT = Path(__file__).parents[2]


def test_the_tables_of_probabilities_are_what_was_measured() -> None:
    text = (ROOT / "docs" / "probabilities.md").read_text("utf-8")
    assert with_tables(text, ROOT / "results") == text
    assert all(f"<!-- table: {name} -->" in text for name in TABLES)
