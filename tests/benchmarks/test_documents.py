"""The document of measurements says what the measurements say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import tables

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "performance.md"
MEASURED: dict[str, Any] = {
    "date": "2026-01-01", "commit": "abc", "load": [0.1, 0.1, 0.1], "load_after": [1.9, 1.0, 0.5],
    "machine": {"processor": "P", "cores": 2, "memory_gb": 16.0, "versions": {"torch": "2"}},
}  # fmt: skip
STEP = {
    "batch": 8,
    "negatives": 4,
    "shapes": [
        {"k": 16, "sides": {"whole": {"best": 0.010}, "authors": {"best": 4.0}, "pykeen": {"failed": "no time left"}}}
    ],
    "measured": MEASURED,
}


def test_tables_are_what_the_results_say() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert tables.with_tables(text, tables.read_results(ROOT / "results")) == text


def test_every_table_has_its_place_in_the_document() -> None:
    assert sorted(tables.table_names(DOCUMENT.read_text("utf-8"))) == sorted(tables.TABLES)


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_table_without_a_measurement_says_so(name: str) -> None:
    assert tables.render(name, {}) == "Not measured yet.\n"


def test_a_side_that_was_not_measured_leaves_its_cell_empty() -> None:
    text = tables.render("step", {"step": STEP})
    assert "| **transher, the whole step** | 10.0 |  |" in text
    assert "formulation) | 4,000 | 400 |" in text
    assert "| PyKEEN's PairRE | – |  |" in text
    assert "commit abc: P, 2 cores, 16 GB" in text


def test_aims_are_judged_by_what_was_measured() -> None:
    text = tables.render("aims", {"step": STEP})
    assert "| whole step, k 16, against the authors' formulation | at least 300.0 times | 400.0 times | yes |" in text
