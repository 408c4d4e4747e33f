from __future__ import annotations

from pathlib import Path

from benchmarks.choices import TABLES
from benchmarks.probabilities import with_tables

ROOT = Path(__file__).parents[2]


def test_the_table_of_choices_is_what_was_measured() -> None:
    text = (ROOT / "docs" / "choosing.md").read_text("utf-8")
    assert with_tables(text, ROOT / "results", TABLES) == text
