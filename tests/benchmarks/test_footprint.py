from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from benchmarks.footprint import DOCUMENT, IMPORTS, LIMIT, MODULES, RESULT, cost_of_import, with_table

import transher


def test_the_table_of_the_installation_is_what_was_measured() -> None:
    text, found = DOCUMENT.read_text("utf-8"), json.loads(RESULT.read_text("utf-8"))
    assert with_table(text, found) == text
    assert found["installed_bytes"] <= LIMIT


@pytest.mark.parametrize("name", MODULES)
def test_an_import_loads_few_modules(name: str, tmp_path: Path) -> None:
    assert cost_of_import(sys.executable, IMPORTS[name], str(tmp_path), rounds=1)[1] <= MODULES[name]


def test_the_package_has_not_outgrown_its_limit() -> None:
    folder = Path(transher.__file__).parent
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert 0 < sum(path.stat().st_size for path in files) <= LIMIT
