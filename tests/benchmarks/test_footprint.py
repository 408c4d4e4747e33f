from __future__ import annotations

import json

from benchmarks.footprint import DOCUMENT, LIMIT, RESULT, with_table


def test_the_table_of_the_installation_is_what_was_measured() -> None:
    text, found = DOCUMENT.read_text("utf-8"), json.loads(RESULT.read_text("utf-8"))
    assert with_table(text, found) == text
    assert found["installed_bytes"] <= LIMIT
