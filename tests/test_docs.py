"""The commands and the Python of the documentation, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from transher.graph import load_graph

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = ("reference/commands.md", "reference/http.md", "notebooks/")  # notebooks have a test of their own
PAGES = sorted(
    page
    for page in (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    if not page.startswith(GENERATED) and re.search(r"^```(sh|python)", (DOCS / page).read_text("utf-8"), re.M)
)


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_works(page: str, tmp_path: Path) -> None:
    run_blocks((DOCS / page).read_text("utf-8"), tmp_path)


def test_the_readme_works_with_a_graph_of_ones_own(tmp_path: Path) -> None:
    graph = load_graph("world")
    lines = [
        f'"{graph.entities.label(head)}",{graph.relations.label(relation)},"{graph.entities.label(tail)}"'
        for head, relation, tail in graph.train
        if graph.relations.label(relation) in ("borders", "in_continent")
    ]
    (tmp_path / "my_graph.csv").write_text("\n".join(["head,relation,tail", *lines]), "utf-8")
    run_blocks((ROOT / "README.md").read_text("utf-8"), tmp_path)


def run_blocks(text: str, folder: Path) -> None:
    """Run the shell and Python blocks of a page in turn, in one folder."""
    blocks = re.findall(r'^```(sh|python)(?: title="([\w.]+)")?\n(.*?)^```', text, re.M | re.S)
    environment = {**os.environ, "PYTHON": sys.executable}
    for language, title, code in blocks:
        if title:  # a file
            (folder / title).write_text(code, "utf-8")
            continue
        if language == "python":
            command = [sys.executable, "-c", code]
        else:
            script = re.sub(r"^pip install .*", "true", code, flags=re.M)
            command = ["bash", "-euc", f'transher() {{ "$PYTHON" -m transher "$@"; }}\n{script}']
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
