"""The commands and the Python of the documentation, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [
    "index",
    "graphs",
    "how-to/sparql",
    "how-to/neo4j",
    "models",
    "training",
    "evaluation",
    "answers",
    "tutorial",
    "your_own_model",
    "python",
]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_works(page: str, tmp_path: Path) -> None:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    blocks = re.findall(r'^```(sh|python)(?: title="([\w.]+)")?\n(.*?)^```', text, re.M | re.S)
    environment = {**os.environ, "PYTHON": sys.executable}
    for language, title, code in blocks:
        if title:  # a file
            (tmp_path / title).write_text(code, "utf-8")
            continue
        if language == "python":
            command = [sys.executable, "-c", code]
        else:
            script = code.replace("pip install .", "true")
            command = ["bash", "-euc", f'transher() {{ "$PYTHON" -m transher "$@"; }}\n{script}']
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("graph", ["world", "db100k"])
def test_the_precision_of_completion_is_what_was_measured(graph: str) -> None:
    found = json.loads((DOCS.parent / "results" / f"completion-{graph}.json").read_text("utf-8"))
    precision, probability = found["precision"], found["mean_probability"]
    cells = [f"{precision[best]:.2f} ({probability[best]:.2f})" for best in ("100", "300", "1000")]
    row = [graph, f"{found['hidden']:,} of {found['hidden'] + found['left']:,}", *cells]
    assert f"| {' | '.join(row)} |" in (DOCS / "answers.md").read_text("utf-8")
