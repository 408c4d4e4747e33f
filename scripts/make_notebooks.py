"""Run the notebooks of docs/notebooks and write each as a page of the site.

    python -m scripts.make_notebooks [DOCS_FOLDER]

The notebooks are kept without outputs: what the site shows is what came out when it was built. A notebook whose data
are not on this machine is shown as it is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from traitlets.config import Config

DOCS = Path(__file__).parents[1] / "docs"
SECONDS = 600  # for a cell


def can_run(name: str) -> bool:
    """Whether the data that a notebook needs are here."""
    data = os.environ.get("TRANSHER_DATA")
    return name != "genes" or (data is not None and Path(data, "genes", "train.txt").is_file())


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs, run in a folder of its own; a cell that fails raises."""
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as sockets:
        # Where there are sockets with a path, they are used: over TCP, anybody on the machine could listen.
        config = Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"} if os.name == "posix" else {})
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=SECONDS, resources=resources, config=config).execute()
    return notebook


def write_page(path: Path, execute: bool) -> Path:
    """The page beside a notebook, and the pictures that it shows."""
    notebook = executed(path) if execute else nbformat.read(path, as_version=4)
    text, resources = MarkdownExporter().from_notebook_node(notebook, {"unique_key": path.stem})
    for name, content in resources["outputs"].items():
        (path.parent / name).write_bytes(content)
    page = path.with_suffix(".md")
    page.write_text(text, "utf-8")
    return page


def write_pages(docs: Path = DOCS, *, execute: bool = True) -> list[Path]:
    notebooks = sorted((docs / "notebooks").glob("*.ipynb"))
    return [write_page(path, execute and can_run(path.stem)) for path in notebooks]


if __name__ == "__main__":
    for written in write_pages(*map(Path, sys.argv[1:2])):
        print(written)
