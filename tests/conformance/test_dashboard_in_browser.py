"""The dashboard in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.conftest import server_or_skip
from tests.dashboard_browser import Dashboard, chromium, open_dashboard
from tests.dashboard_server import MARKUP
from tools.screenshots import FOLDER, MOST_BYTES, PICTURES, take


@pytest.fixture(scope="module")
def dashboard() -> Iterator[Dashboard]:
    with open_dashboard(server_or_skip(chromium)) as opened:
        yield opened


@pytest.fixture
def at(dashboard) -> Iterator[Callable[..., Any]]:
    """A function that opens a page of a scene; nothing may be said on the console meanwhile."""
    pages = []

    def open_page(scene: str, path: str = "/", **context: Any) -> Any:
        dashboard.show(scene)
        pages.append(dashboard.open(path, **context))
        return pages[-1]

    yield open_page
    assert dashboard.said == []
    for page in pages:
        page.context.close()


def test_the_overview_has_the_worst_first_and_totals(at):
    page = at("trouble")
    names = page.locator("tbody th a").all_inner_texts()
    assert names[:7] == ["lost", "nearly lost", "stopped", "away", MARKUP, "fault", "no copy"]
    assert names[7:10] == ["starts", "copies", "paused"]
    assert names[-1] == "off"
    assert page.locator(".totals dd").all_inner_texts()[:2] == ["20", "7"]
    assert page.locator("tr.bad").count() == 7


def test_each_kind_of_trouble_is_said_in_words(at):
    page = at("trouble")
    errors = {
        row.locator("th").inner_text(): row.locator("td.error").inner_text() for row in page.locator("tr.bad").all()
    }
    assert errors == {
        "lost": "the slot is lost: wal_removed",
        "nearly lost": "the slot is about to be lost",
        "stopped": "ERROR: gap",
        "away": "ERROR: could not connect",
        MARKUP: "ERROR: duplicate key value",
        "fault": "ERROR: a fault",
        "no copy": "ERROR: permission denied for table a",
    }


def test_a_table_that_cannot_be_copied_is_marked_with_its_error(at):
    page = at("trouble", "/subscriptions/11")
    expect(page.locator("#tables ~ div tr.bad")).to_contain_text("permission denied for table a")


def test_a_target_that_is_away_is_said_and_so_is_that_its_catalog_is_an_old_one(at, dashboard):
    page = at("broken target")
    expect(page.get_by_role("alert")).to_contain_text("The target's catalog cannot be read (7 attempts)")
    expect(page.locator("tr.bad")).to_have_count(2)
    page.get_by_role("link", name="a", exact=True).click()
    expect(page.locator(".held .title")).to_have_text("Applied")
    page.go_back()
    dashboard.show("one")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_every_column_of_the_overview_fits_into_1200_pixels(at):
    page = at("trouble", viewport={"width": 1200, "height": 700})
    wide = page.get_by_role("region", name="Subscriptions")
    assert wide.evaluate("element => element.scrollWidth <= element.clientWidth")


def test_a_name_that_looks_like_markup_is_text(at):
    page = at("trouble")
    assert page.locator("img").count() == 0
    page.get_by_role("link", name=MARKUP).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(MARKUP)
    assert page.locator("img").count() == 0


def test_a_subscription_that_fails_shows_where_and_the_statement_that_skips(at):
    page = at("trouble", "/subscriptions/2")
    expect(page.locator(".held .title")).to_have_text("Applied")
    expect(page.locator("#skip")).to_have_text(f"ALTER SUBSCRIPTION \"{MARKUP}\" SKIP (lsn = '0/1A2B');")
    expect(page.locator("pre.error")).to_contain_text("duplicate key value")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").endswith("SKIP (lsn = '0/1A2B');")


def test_a_recorded_conflict_has_its_values_as_text_and_a_statement_to_copy(at):
    page = at("trouble", "/subscriptions/2")
    row = page.get_by_role("row", name=re.compile("insert_exists"))
    expect(row).to_contain_text(f"main.{MARKUP}")
    expect(row).to_contain_text(f'remote tuple: {{"a": "{MARKUP}"}}')
    assert page.locator("img").count() == 0
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the statement that skips 0/1A2C").click()
    assert page.evaluate("navigator.clipboard.readText()").endswith("SKIP (lsn = '0/1A2C');")


def test_a_copy_has_a_bar_and_a_batch_its_stages(at):
    page = at("trouble", "/subscriptions/4")
    bar = page.get_by_role("progressbar")
    assert (bar.get_attribute("value"), bar.get_attribute("max")) == ("300", "1000")
    page = at("trouble", "/subscriptions/1")
    cells = page.locator("#batches ~ div tbody td").all_inner_texts()
    assert cells[:3] == ["0/384", "12", "340"]
    assert cells[4:9] == ["1.0", "0.0", "0.0", "20.0", "4.0"]
    expect(page.get_by_role("row", name=re.compile("update_missing"))).to_contain_text("2")


def test_a_commit_is_shown_without_a_reload_and_the_focus_stays(at, dashboard):
    page = at("one", "/subscriptions/1")
    applied = page.locator(".way g:last-of-type .value")
    expect(applied).to_have_text("0/385")
    link = page.get_by_role("link", name="Metrics")
    link.focus()
    page.evaluate("window.wasNotLoadedAgain = true")
    dashboard.show("commit")
    expect(applied).to_have_text("0/3D1")
    assert page.evaluate("window.wasNotLoadedAgain")
    expect(link).to_be_focused()


def test_an_empty_run_says_what_to_do(at):
    page = at("empty")
    expect(page.locator(".nothing")).to_contain_text("CREATE SUBSCRIPTION")
    assert page.locator("table").count() == 0


def test_five_hundred_tables_are_listed(at):
    page = at("many tables", "/subscriptions/1")
    assert page.locator("#tables ~ div tbody tr").count() == 500


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/subscriptions/2"])
def test_a_phone_needs_no_sideways_scrolling_in_both_schemes(at, dark, path):
    scheme = "dark" if dark else "light"
    page = at("trouble", path, viewport={"width": 390, "height": 800}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", ground)[:3])) < 64) is dark


def test_everything_is_reached_by_the_keyboard_and_has_a_name(at):
    page = at("trouble")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for role in ("table", "img", "group", "region", "navigation"):
        for element in page.get_by_role(role).all():
            assert element.get_attribute("aria-label") or element.locator("caption").count(), role


def test_a_command_is_given_by_the_keyboard_after_a_question(at):
    page = at("one", "/subscriptions/1")
    page.get_by_role("link", name="Disable").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Give this command?")
    expect(page.locator("pre")).to_have_text("ALTER SUBSCRIPTION orders DISABLE;")
    page.get_by_role("button", name="Give the command").focus()
    page.keyboard.press("Enter")
    row = page.get_by_role("row", name=re.compile("orders DISABLE"))
    expect(row.locator(".answer")).to_have_text("ALTER SUBSCRIPTION")
    expect(row).to_contain_text("not seen yet")


def test_the_journal_is_read_from_the_list_to_the_messages_of_a_transaction(at):
    page = at("one", "/subscriptions/1")
    page.get_by_role("link", name="Journal").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Journal of orders")
    expect(page.locator("#connection")).to_have_count(0)
    page.get_by_role("link", name="0/300").click()
    expect(page.get_by_role("row", name=re.compile("INSERT"))).to_contain_text(MARKUP)
    assert page.locator("img").count() == 0
    page.get_by_role("link", name=re.compile("Explain")).click()
    expect(page.get_by_role("heading", level=2)).to_have_text("INSERT public.t: sent")
    expect(page.get_by_role("listitem")).to_have_text("p: WHERE (a > 1)  old -, new t")
    page.go_back()
    page.go_back()
    page.get_by_label("Transaction that ends at LSN").fill("0/200")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Transaction that ends at 0/200")


@pytest.mark.parametrize(
    "path", ["/subscriptions/1/cutover", "/subscriptions/1/journal", "/subscriptions/1/journal/transaction?lsn=0/200"]
)
def test_a_phone_shows_journal_and_cutover_without_sideways_scrolling(dashboard, path):
    dashboard.show("one")
    page = dashboard._browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(f"{dashboard.address}{path}")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.close()


def test_the_page_of_a_cutover_is_live_and_says_that_there_is_none(at):
    page = at("one", "/subscriptions/1")
    page.get_by_role("link", name="Verify and cutover").click()
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator(".nothing")).to_contain_text("No cutover is in progress")


def test_an_unknown_subscription_is_not_found(dashboard):
    dashboard.show("one")
    assert dashboard.status("/subscriptions/99") == 404


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scene", ["empty", "one", "trouble", "broken target", "many tables"])
def test_axe_finds_no_fault_on_any_page(at, scene, scheme):
    """Every page that links lead to, from the overview on. axe-core checks what WCAG asks for, and
    more: contrast, names, headings, landmarks, lists, tables.
    """
    found, paths = {}, ["/"]
    for path in paths:
        page = at(scene, path, color_scheme=scheme)
        found[path] = Axe().run(page).generate_report()
        # Subscriptions in which nothing fails are alike; the scene "one" has such a one.
        links = page.locator("a[href^='/']").filter(has_not_text="fine ")
        leads_to = links.evaluate_all("all => all.map(one => one.getAttribute('href'))")
        paths += [link for link in dict.fromkeys(leads_to) if link not in {*paths, "/metrics"}]
        page.close()
    assert {path: report for path, report in found.items() if not report.startswith("Found 0 ")} == {}
    assert len(paths) > 1 or scene == "empty"


def test_the_pictures_of_the_documents_are_taken_and_are_small(dashboard, tmp_path):
    take(dashboard, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in FOLDER.iterdir()} == PICTURES.keys()
    for name in PICTURES:
        taken, shown = (tmp_path / name).read_bytes(), (FOLDER / name).read_bytes()
        assert max(len(taken), len(shown)) < MOST_BYTES, name
        # Width and height; fonts differ between machines, so bytes may, too.
        assert taken[:24] == shown[:24], name
