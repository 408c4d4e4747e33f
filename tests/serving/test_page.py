"""The page in a real browser: what a person does with it, by mouse, keyboard and finger."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from tests.cli.test_hostile_names import HOSTILE, RELATIONS, entity, hostile_triples
from tests.serving.process import Server

import transher
from transher.training.recipe import Recipe
from transher.visible import shown

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no Chromium to show the page in: apt-get install chromium", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright, to drive Chromium")
expect = playwright.expect

OPTIONS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PHONE = {"width": 375, "height": 760}
VIEWS = [
    "", "entity?name=country/FR", "ask?head=country/FR&relation=borders", "relations", "relation?name=borders", "map",
    "search?text=an", "verdicts",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    with opened(browser, server, **getattr(request, "param", {})) as page:
        yield page


@contextmanager
def opened(browser: Any, server: Server, **options: Any) -> Iterator[Any]:
    """A page that must neither fail, nor break its own security policy, nor ask any other machine for anything."""
    context = browser.new_context(base_url=server.url, **options)
    context.set_default_timeout(120_000)  # on a machine that is busy with something else
    expect.set_options(timeout=120_000)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if _is_fault(message) else None)
    page.on("request", lambda sent: None if sent.url.startswith((server.url, "blob:")) else faults.append(sent.url))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    yield page
    context.close()
    assert not faults


def answers_of_tiny(page: Any) -> Any:
    """The answers of one of the two runs: those of the other may come first."""
    return page.locator(".columns .card", has=page.locator("h2", has_text="tiny"))


def _is_fault(message: Any) -> bool:
    """A refused request is written to the console too, and is no fault of the page."""
    return message.type == "error" and "Failed to load resource" not in message.text


def test_a_name_is_typed_found_and_opened_by_keyboard_alone(page: Any) -> None:
    page.goto("/")
    expect(page.get_by_role("combobox")).to_be_focused()
    with page.expect_response(lambda response: "text=Frnace" in response.url):  # not those of what was typed before
        page.keyboard.type("Frnace")
    expect(page.get_by_role("option", name="France").first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("option", name="France").first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("France")
    assert "#/entity" in page.url
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_contain_text("world")


def test_an_entity_shows_known_and_predicted_facts_neighbours_and_similar_ones(page: Any) -> None:
    page.goto("/#/entity?name=country/FR")
    expect(page.locator(".known-facts .chip", has_text="Spain").first).to_be_visible()
    expect(page.get_by_text("expected to be missing.")).to_be_visible()
    expect(page.locator(".facts .bar").first).to_be_attached()
    expect(page.locator(".graph .edge.known").first).to_be_attached()
    assert page.locator(".similar li").count() == 8
    page.locator(".similar a").first.click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text("France")


def test_two_runs_answer_side_by_side_each_under_its_name_and_in_its_own_way(page: Any) -> None:
    page.goto("/#/ask?head=country/FR&relation=borders")
    columns = page.locator(".columns .card")
    expect(columns.locator("h2")).to_have_text(["tiny · TranSHER", "other · PairRE"])
    expect(columns.locator(".facts")).to_have_count(2)
    first, second = (columns.nth(place).locator(".facts .what").all_inner_texts() for place in range(2))
    assert first
    assert second
    assert first != second


def test_a_missing_share_moves_the_probabilities_and_is_kept_by_the_address(page: Any) -> None:
    page.goto("/#/ask?head=country/FR&relation=borders&tail=country/ES")
    probability = answers_of_tiny(page).locator(".facts .value").first
    expect(probability).to_have_text(re.compile(r"\d %"))
    before = probability.inner_text()
    field = page.get_by_label("the graph lacks about")
    field.fill("95")
    field.press("Enter")
    expect(probability).not_to_have_text(before)
    after = probability.inner_text()
    assert "missing_share=0.95" in page.url
    page.reload()
    expect(probability).to_have_text(after)
    expect(field).to_have_value("95")
    field.fill("100")
    field.press("Enter")
    assert "missing_share=0.95" in page.url  # a graph that lacks all has nothing to go by


def test_a_question_is_asked_answered_by_two_runs_and_explained(page: Any) -> None:
    page.goto("/#/ask")
    page.get_by_role("combobox", name="head", exact=True).fill("France")
    page.get_by_role("option", name="France").first.click()
    page.get_by_role("combobox", name="relation", exact=True).fill("bord")
    page.get_by_role("option", name="borders").click()
    expect(page.locator(".columns .facts")).to_have_count(2)
    expect(page.locator(".facts .value").first).to_have_text(re.compile("%"))
    page.locator(".facts .fact-line .value").first.click()
    expect(page.locator(".evidence h4").first).to_be_visible()
    page.reload()
    expect(page.locator(".evidence h4").first).to_be_visible()  # the address keeps what was opened
    page.get_by_label("only what is not known yet").check()
    expect(page.locator(".facts .tag")).to_have_count(0)
    assert "known=hide" in page.url


def test_a_relation_shows_what_it_is_and_its_missing_facts_can_be_downloaded(page: Any) -> None:
    page.goto("/#/relations")
    page.get_by_role("link", name="borders").click()
    expect(page.locator(".badge").first).to_have_text("N-to-N")
    expect(page.locator(".strip rect")).to_have_count(16)
    expect(page.get_by_text("If A").first).to_be_visible()
    expect(page.get_by_text("MRR")).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").click()
    assert started.value.path().read_text("utf-8").startswith("rank\thead\trelation\ttail")


def test_the_map_is_searched_coloured_and_moved_and_its_address_keeps_it(page: Any) -> None:
    page.goto("/#/map")
    expect(page.get_by_role("heading", level=1)).to_have_text("Map", timeout=120_000)  # it is computed once
    page.get_by_role("button", name="Community").click()
    expect(page.get_by_role("button", name="Community")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".legend-entry").first).to_be_visible()
    page.get_by_role("combobox", name="Find on the map").fill("Kenya")
    page.get_by_role("option", name="Kenya").first.click()
    page.wait_for_url(re.compile(r"at=country.*zoom="))
    before = page.url
    page.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    page.wait_for_url(lambda url: url != before)
    kept = page.url
    page.reload()
    expect(page.get_by_role("button", name="Community")).to_have_attribute("aria-pressed", "true")
    assert page.url == kept


def test_what_takes_too_long_is_not_called_missing_and_can_be_tried_again(page: Any) -> None:
    answer = {"status": 503, "headers": {"retry-after": "0.1"}, "json": {"reason": "This took longer than 30 seconds."}}
    page.route("**/api/runs/*/map*", lambda route: route.fulfill(**answer))
    page.goto("/#/map")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not ready yet")
    page.unroute("**/api/runs/*/map*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Map")


def test_a_name_that_looks_like_markup_stays_text(page: Any) -> None:
    page.goto("/#/entity?name=" + "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("main img").count() == 0


@pytest.mark.parametrize("page", [{"viewport": PHONE, "has_touch": True}], indirect=True)
@pytest.mark.parametrize("view", VIEWS)
def test_on_a_phone_nothing_sticks_out(page: Any, view: str) -> None:
    page.goto(f"/#/{view}")
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=120_000)  # the map is computed once
    page.wait_for_selector("[aria-busy]", state="detached")
    assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0


SMALLEST = """() => {
  const shown = [...document.querySelectorAll("svg.graph text")].filter((text) => text.getClientRects().length);
  return Math.min(...shown.map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a));
}"""


@pytest.mark.parametrize("page", [{"viewport": PHONE, "has_touch": True}], indirect=True)
def test_a_phone_shows_what_is_missing_first_and_neighbours_in_letters_that_can_be_read(page: Any) -> None:
    page.goto("/#/entity?name=country/FR")
    page.wait_for_selector("[aria-busy]", state="detached")
    expect(page.locator(".graph .node").first).to_be_visible()
    assert page.evaluate(SMALLEST) > 11
    missing = page.locator(".card", has=page.get_by_role("heading", name="Expected to be missing"))
    drawing = page.locator(".card", has=page.get_by_role("heading", name="Neighbourhood"))
    assert missing.bounding_box()["y"] < drawing.bounding_box()["y"]


def test_light_and_dark_follow_the_system(page: Any) -> None:
    page.goto("/")
    papers = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        papers.add(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
    assert len(papers) == 2


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious_in_light_and_dark(page: Any, view: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    page.emulate_media(color_scheme="light")
    page.goto(f"/#/{view}")
    expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=120_000)  # the map is computed once
    page.wait_for_selector("[aria-busy]", state="detached")
    if view.startswith("ask"):
        page.locator(".facts .fact-line .value").first.click()
        expect(page.locator(".evidence h4").first).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        # Of what depends on the scheme, colours alone do.
        options = {"resultTypes": ["violations"]} | ({} if scheme == "light" else {"runOnly": ["color-contrast"]})
        found = axe.Axe().run(page, options=options).response["violations"]
        serious = [
            (fault["id"], [node["html"] for node in fault["nodes"]][:3])
            for fault in found
            if fault["impact"] in ("serious", "critical")
        ]
        assert not serious, scheme


def test_a_fact_is_marked_by_keyboard_listed_and_taken_back(page: Any) -> None:
    page.goto("/#/ask?head=country/FR&relation=borders&known=hide")
    answers = answers_of_tiny(page)
    label = answers.get_by_role("button", name=re.compile("^Mark as wrong")).first.get_attribute("aria-label")
    fact = label.split(", ")[-1]
    wrong = answers.get_by_role("button", name=label, exact=True)
    expect(wrong).to_have_attribute("aria-pressed", "false")
    with page.expect_response(lambda response: response.url.endswith("/verdicts") and response.ok):
        wrong.focus()
        page.keyboard.press("Enter")
    expect(wrong).to_have_attribute("aria-pressed", "true")
    page.goto("/#/verdicts")
    expect(page.locator(".checked li")).to_have_count(1)
    expect(page.locator(".checked li")).to_contain_text(fact)
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").click()
    assert "wrong" in started.value.path().read_text("utf-8")
    page.locator(".checked .mark.wrong").click()
    expect(page.locator(".checked .mark.wrong")).to_have_attribute("aria-pressed", "false")
    page.reload()
    expect(page.get_by_text("Nothing is marked yet")).to_be_visible()


def test_one_click_leads_from_a_known_fact_to_its_evidence(page: Any) -> None:
    page.goto("/#/entity?name=country/FR")
    page.get_by_role("link", name="Evidence: France, borders, Spain").first.click()
    expect(page.locator(".evidence h4").first).to_be_visible()


def copied(page: Any) -> str:
    """What the page puts on an empty clipboard. It says so too, but not for long."""
    page.wait_for_function("async () => (await navigator.clipboard.readText()) !== ''")
    return str(page.evaluate("() => navigator.clipboard.readText()"))


def test_a_saved_table_has_all_known_facts_of_an_entity_and_not_only_those_shown(page: Any) -> None:
    page.goto("/#/entity?name=continent/EU")
    expect(page.locator(".known-facts .chip.more").first).to_be_visible()
    told = re.search(r"([\d,]+) known facts", page.locator(".title").inner_text())
    assert told is not None
    with page.expect_download() as started:
        page.get_by_role("button", name="Save the known facts as a file").click()
    lines = started.value.path().read_text("utf-8").splitlines()
    assert len(set(lines)) == len(lines) == 1 + int(told[1].replace(",", ""))


def test_answers_evidence_and_search_results_can_be_taken_away(page: Any) -> None:
    page.goto("/#/ask?head=country/FR&relation=borders")
    with page.expect_download() as started:
        answers_of_tiny(page).get_by_role("button", name="Save the answers as a file").click()
    assert started.value.path().read_text("utf-8").startswith("head\trelation\ttail\thead_id")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("() => navigator.clipboard.writeText('')")
    answers_of_tiny(page).locator(".facts .fact-line .value").first.click()
    page.get_by_role("button", name="Copy the evidence").first.click()
    assert "in the graph" in copied(page)
    page.goto("/#/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("world")
    page.get_by_role("combobox").fill("fran")
    page.get_by_role("option", name="All results").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("fran")
    expect(page.get_by_role("link", name="France", exact=True)).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("button", name="Save the results as a file").click()
    assert "France" in started.value.path().read_text("utf-8")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A run of a graph whose names somebody made to be obeyed."""
    settings = ["model.k=8", "training.steps=10", "training.batch=32", "training.negatives=4"]
    run = transher.train(
        hostile_triples(), tmp_path_factory.mktemp("hostile") / "run", recipe=Recipe().with_settings(settings)
    )
    served = Server(str(run.folder))
    yield served
    served.stop()


@pytest.mark.parametrize("place", range(len(HOSTILE)), ids=lambda place: ascii(HOSTILE[place]))
def test_a_hostile_name_is_shown_as_in_the_terminal(browser: Any, hostile: Server, place: int) -> None:
    with opened(browser, hostile) as page:
        page.goto(f"/#/entity?name={quote(entity(place), safe='')}")
        expect(page.get_by_role("heading", level=1)).to_have_text(shown(entity(place)))
        expect(page.locator(".known-facts .chip").first).to_be_visible()
        nothing_hidden(page)


@pytest.mark.parametrize(
    "view",
    [
        "",
        f"ask?head={quote(entity(9), safe='')}&relation={quote(RELATIONS[2], safe='')}",
        "relations",
        f"relation?name={quote(RELATIONS[0], safe='')}",
        "map",
        "search?text=x",
    ],
    ids=["home", "ask", "relations", "relation", "map", "search"],
)
def test_hostile_names_are_text_in_every_view(browser: Any, hostile: Server, view: str) -> None:
    with opened(browser, hostile) as page:
        page.goto(f"/#/{view}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        nothing_hidden(page)


def nothing_hidden(page: Any) -> None:
    """Nothing became markup, and no character is there that nobody sees."""
    text = page.locator("body").inner_text()
    assert all(character in "\n\t" or shown(character) == character for character in text), ascii(text)
    assert page.locator("main script, main img").count() == 0


def test_what_is_pasted_into_a_spreadsheet_is_no_formula(browser: Any, hostile: Server) -> None:
    with opened(browser, hostile) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto("/#/relations")
        page.evaluate("() => navigator.clipboard.writeText('')")
        page.get_by_role("button", name="Copy the relations").click()
        rows = [line.split("\t") for line in copied(page).splitlines()]
        assert f"'{RELATIONS[1]}" in {row[1] for row in rows}
        assert not [cell for row in rows for cell in row if cell[:1] in ("=", "+", "-", "@")]
        with page.expect_download() as started:
            page.get_by_role("button", name="Save the relations as a file").click()
        assert f"\t{RELATIONS[1]}\t" in started.value.path().read_text("utf-8")  # programs read what is there
