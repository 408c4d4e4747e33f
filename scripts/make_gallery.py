"""Take the screenshots of docs/gallery.md with Chromium, from a server that is running and from a report.

transher train world --out runs/page
transher train world --out runs/report --model transher --set model.k=100 --set training.steps=1500
transher analyze runs/report --out report
transher serve runs/page &
python -m scripts.make_gallery http://127.0.0.1:8085 report/report.html
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 400, "height": 860}
SECONDS = 300  # for a view: the map is computed when it is first asked for
VIEWS = {
    "explore-entity": ("entity?name=country/DZ", WIDE, False),
    "explore-evidence": ("ask?head=country/DZ&relation=speaks&known=hide", WIDE, True),
    "explore-relation": ("relation?name=near", WIDE, False),
    "explore-map": ("map", WIDE, False),
    "explore-phone": ("entity?name=country/DZ", PHONE, False),
}
SECTIONS = ("reliability", "translations")  # of a report


def take(browser: Any, address: str, name: str) -> Path:
    """One picture; of some views with the first fact's evidence open."""
    view, size, opened = VIEWS[name]
    page = browser.new_page(viewport=size)
    page.set_default_timeout(1000 * SECONDS)
    page.goto(f"{address}/#/{view}")
    page.get_by_role("heading", level=1).wait_for()
    page.wait_for_selector("[aria-busy]", state="detached")
    if page.get_by_role("alert").count():
        sys.exit(f"{view}: {page.get_by_role('alert').first.inner_text()}")
    if opened:
        page.locator(".fact-line .value").first.click()
        page.locator(".evidence h4").first.wait_for()
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    page.close()
    return path


def take_report(browser: Any, report: Path) -> Iterator[Path]:
    """Some sections of a report."""
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.goto(report.resolve().as_uri())
    for section in SECTIONS:
        path = IMAGES / f"report-{section}.png"
        page.locator(f"section#{section}").screenshot(path=path)
        yield path
    page.close()


def main() -> None:
    address, *reports = sys.argv[1:]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in VIEWS:
            print(take(browser, address, name))
        for report in reports:
            print(*take_report(browser, Path(report)), sep="\n")
        browser.close()


if __name__ == "__main__":
    main()
