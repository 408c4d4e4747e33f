"""The documentation site builds without a warning, and nothing on it leads nowhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from scripts.docstrings import as_list
from scripts.make_reference import commands_page, http_page, write_pages

from scripts import make_notebooks

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NAVIGATION = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]


def pages_of(navigation: Any) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    elif isinstance(navigation, dict):
        yield from pages_of(list(navigation.values()))
    else:
        for part in navigation:
            yield from pages_of(part)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in a folder of its own; a warning, as of a link to no page or no heading, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    for name in ("src", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    write_pages(folder / "docs")
    make_notebooks.write_pages(folder / "docs", execute=False)
    zensical = Path(sys.executable).with_name("zensical")
    if not zensical.is_file():
        pytest.skip("pip install '.[docs]', to build the site")
    command = [str(zensical), "build", "--strict"]
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return folder / "site"


class _Addresses(HTMLParser):
    """What a page links to or shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {value for name, value in attrs if name in ("href", "src") and value}


def test_every_file_that_the_site_names_is_there(site: Path) -> None:
    lost, elsewhere = [], []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        addresses = _Addresses()
        addresses.feed(page.read_text("utf-8"))
        for address in addresses.found:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                elsewhere += [address] if parts.scheme not in ("https", "http", "mailto") else []
            elif parts.path and not (page.parent / unquote(parts.path)).exists():
                lost.append(f"{page.relative_to(site)}: {address}")
    assert not lost
    assert not elsewhere


def test_the_reference_shows_what_python_offers(site: Path) -> None:
    import transher

    text = (site / "reference" / "python" / "index.html").read_text("utf-8")
    assert not [name for name in transher.__all__ if f">{name}<" not in text]


def test_every_page_is_in_the_navigation_once() -> None:
    notebooks = {f"notebooks/{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")}
    generated = {"reference/commands.md", "reference/http.md"} | notebooks
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | generated
    assert sorted(pages_of(NAVIGATION)) == sorted(there)


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md")))
def test_links_of_the_pages_beside_the_code_lead_somewhere(page: str) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text("utf-8"))
    assert not [target for target in targets if "://" not in target and not (ROOT / target).exists()]


def test_the_pages_made_from_the_code_have_every_command_and_path() -> None:
    from transher.cli.main import main
    from transher.serving.api import create_app

    commands, http = commands_page(), http_page()
    assert not [name for name in main.commands if f"## {name}\n" not in commands]
    assert not [path for path in create_app({}).openapi()["paths"] if f" {path}\n" not in http]


def test_arguments_in_a_docstring_become_a_list() -> None:
    text = "What it does: much.\n\ntop: how many,\n    at most.\nhead, tail: the ends.\nother: text"
    wanted = "What it does: much.\n\n- `top`: how many,\n    at most.\n- `head`, `tail`: the ends.\nother: text"
    assert as_list(text, {"top", "head", "tail"}) == wanted
