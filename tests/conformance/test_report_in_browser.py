"""The report in Chromium: opened, clicked and filtered, in light and dark mode."""

from __future__ import annotations

import html
import json
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from subscriber.base.errors import UsageError
from subscriber.testing.library import Expected, ExpectedFailures, judge
from subscriber.testing.run_session import Result
from subscriber.testing.session_page import write_report
from subscriber.testing.stage import Setup
from tests.conftest import server_or_skip
from tests.sessions import CREATE_SUBSCRIPTION, FILTERED, ORDERED, SESSION, played, session

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS: Final = 120
"""Seconds to wait for a page; opening a page takes about three."""
_CONSOLE: Final = re.compile(r"CONSOLE[:(]\d+\)?\] (.*)")

_STEPS_PAGE: Final = """<!doctype html><meta charset="utf-8"><style>iframe {{ border: 0 }}</style>
<iframe src="{page}" width="1280" height="{height}"></iframe><pre></pre>
<script>
addEventListener("load", async () => {{
  const window = document.querySelector("iframe").contentWindow;
  const answer = document.querySelector("pre");
  const steps = async (document, seen) => {{ {steps} }};
  const seen = {{}};
  try {{ await steps(window.document, seen); }} catch (error) {{ seen.error = String(error); }}
  answer.textContent = JSON.stringify(seen);
}});
</script>"""


class Browser:
    """Chromium on this machine. Each page is opened by a separate process.

    Raises:
        UsageError: there is none.
    """

    def __init__(self) -> None:
        found = next(filter(None, map(shutil.which, _NAMES)), None)
        if found is None:
            raise UsageError("no Chromium was found on this machine", hint="Install chromium.")
        self._program = found

    def screenshot(self, url: str, picture: Path) -> None:
        """A picture of the visible part of a page in a window of 1280 by 800 pixels."""
        self._run([f"--screenshot={picture}", "--window-size=1280,800", url])

    def open(self, url: str) -> tuple[str, list[str]]:
        """The elements of a page after it was loaded, and the messages of its console."""
        ended = self._run(["--dump-dom", url])
        return ended.stdout, _CONSOLE.findall(ended.stderr)

    def look(
        self, page: Path, steps: str, *, dark: bool = False, height: int = 800
    ) -> tuple[dict[str, Any], list[str]]:
        """What ``steps`` finds on a page, and the messages of its console.

        Args:
            page: a file.
            steps: JavaScript that examines the page. It has ``window`` and ``document`` of the
                page, and ``seen``, an object for what it finds.
            dark: whether the user prefers dark pages.
            height: the height of the window, which is 1280 pixels wide.
        """
        with tempfile.TemporaryDirectory() as folder:
            beside = Path(folder) / "steps.html"
            beside.write_text(_STEPS_PAGE.format(page=page.as_uri(), height=height, steps=steps))
            # Without this option, Chromium treats local files as different origins.
            options = [
                "--allow-file-access-from-files",
                "--virtual-time-budget=20000",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            ]
            ended = self._run([*options, "--dump-dom", beside.as_uri()])
        answer = re.search(r"<pre>(.*)</pre>", ended.stdout, re.DOTALL)
        assert answer is not None, ended.stderr
        seen: dict[str, Any] = json.loads(html.unescape(answer[1]))
        assert "error" not in seen, seen["error"]
        return seen, _CONSOLE.findall(ended.stderr)

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as profile:
            return subprocess.run(
                [
                    self._program,
                    "--headless=new",
                    "--no-sandbox",  # root cannot use the sandbox
                    "--disable-gpu",
                    "--disable-dev-shm-usage",  # /dev/shm is small in a container
                    "--hide-scrollbars",
                    "--enable-logging=stderr",
                    f"--user-data-dir={profile}",
                    *arguments,
                ],
                capture_output=True,
                text=True,
                check=True,
                timeout=_SECONDS,
            )


NATIVE, SQLITE = Setup("native", 18), Setup("sqlite", 18)
FAILED = "session:101_filter:sqlite:18"
OTHER_ROW = " a | b\n---+---\n 1 | x\n 2 | <img src=x onerror=alert(1)>\n(2 rows)"

SHOWN = """
  const shown = (element) => element.getClientRects().length > 0;
  const click = async (element) => {
    const moved = new Promise((resolve) => window.addEventListener("hashchange", resolve, { once: true }));
    element.click();
    await moved;
  };
  const press = async (key) => {
    const moved = new Promise((resolve) => window.addEventListener("hashchange", resolve, { once: true }));
    document.body.dispatchEvent(new window.KeyboardEvent("keydown", { key, bubbles: true }));
    await moved;
  };
  const section = (name) => document.getElementById(name);
"""


@pytest.fixture(scope="module")
def browser():
    return server_or_skip(Browser)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Every verdict, in two setups."""
    broken = "ERROR:  the subscriptions did not settle"
    long = SESSION.replace("lets through", "lets through, told at such length that it does not fit " * 3)
    results = [played(session(name), NATIVE) for name in ("101_filter", "102_known", "103_broken", "104_mended")]
    results += [
        played(session(), SQLITE, {ORDERED: OTHER_ROW}),
        played(session("102_known"), SQLITE, {FILTERED: "ERROR:  no"}),
        played(session("103_broken"), SQLITE, ended_at=CREATE_SUBSCRIPTION, error=broken, leftover=broken),
        played(session("104_mended"), SQLITE),
        Result(session("105_skipped", long), SQLITE, (), 0.0, skipped="needs two_phase"),
    ]
    reason = Expected("not there yet", 4)
    expected: ExpectedFailures = {(name, "sqlite", "server"): reason for name in ("102_known", "104_mended")}
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(path, [(result, judge(result, expected)) for result in results], expected)
    return path


def test_the_page_loads_without_a_word_on_the_console(browser, page):
    elements, console = browser.open(page.as_uri())
    assert elements.count("<td>") == 10
    assert console == []


def test_a_cell_opens_its_session_in_place_of_the_table(browser, page):
    seen, console = browser.look(
        page,
        SHOWN
        + f"""
        const overview = document.querySelector("main");
        const cell = document.querySelector('td a[href="#{FAILED}"]');
        cell.focus();
        seen.reached = document.activeElement === cell;
        seen.before = [shown(overview), shown(section("{FAILED}"))];
        await click(cell);
        seen.after = [shown(overview), shown(section("{FAILED}"))];
        seen.sessions = [...document.querySelectorAll(".session")].filter(shown).length;
        await press("Escape");
        seen.back = [shown(overview), window.location.hash];
        """,
    )
    assert seen == {
        "reached": True,
        "before": [True, False],
        "after": [False, True],
        "sessions": 1,
        "back": [True, "#scenario:101_filter"],
    }
    assert console == []


def test_expected_and_actual_stand_side_by_side_line_by_line(browser, page):
    seen, console = browser.look(
        page,
        SHOWN
        + f"""
        await click(document.querySelector('td a[href="#{FAILED}"]'));
        const [left, right] = section("{FAILED}:line-{ORDERED}").querySelectorAll(".lines");
        const [changed, other] = [left, right].map((side) => side.querySelector(".changed"));
        const place = (element) => element.getBoundingClientRect();
        seen.texts = [changed.textContent, other.textContent];
        seen.beside = place(changed).top === place(other).top && place(changed).right < place(other).left;
        seen.sign = window.getComputedStyle(changed, "::before").content.slice(0, 3);
        seen.images = document.images.length;
        """,
    )
    assert seen["texts"] == [" 2 | y", " 2 | <img src=x onerror=alert(1)>"]
    assert seen["beside"]
    assert seen["sign"] == '"≠"'
    assert seen["images"] == 0
    assert console == []


def test_the_address_of_a_statement_opens_its_session_there(browser, page):
    seen, _ = browser.look(
        page,
        SHOWN
        + f"""
        const statement = section("{FAILED}:line-{ORDERED}");
        await click(section("{FAILED}").querySelector(".why a"));
        seen.hash = window.location.hash;
        seen.shown = [shown(document.querySelector("main")), shown(statement)];
        const heading = section("{FAILED}").querySelector(".headings");
        seen.covered = statement.getBoundingClientRect().top < heading.getBoundingClientRect().bottom;
        seen.visible = statement.getBoundingClientRect().bottom <= window.innerHeight;
        """,
        height=400,
    )
    assert seen == {
        "hash": f"#{FAILED}:line-{ORDERED}",
        "shown": [False, True],
        "covered": False,
        "visible": True,
    }


def test_rows_are_filtered_by_name_and_by_failure(browser, page):
    seen, _ = browser.look(
        page,
        SHOWN
        + """
        const { search, failures, shown: count } = document.getElementById("filters");
        const names = () => [...document.querySelectorAll("tbody tr")].filter(shown).map((row) => row.id.slice(9));
        const type = (text) => { search.value = text; search.dispatchEvent(new window.Event("input", { bubbles: true })); };
        seen.all = [names().length, count.value];
        failures.click();
        seen.failures = [names(), count.value];
        type("MEND");
        seen.both = names();
        failures.click();
        type("filter 101");
        seen.words = names();
        type("nowhere");
        seen.none = [names(), count.value];
        """,
    )
    assert seen == {
        "all": [5, ""],
        "failures": [["101_filter", "103_broken", "104_mended"], "3 of 5 shown"],
        "both": ["104_mended"],
        "words": ["101_filter"],
        "none": [[], "0 of 5 shown"],
    }


def test_nothing_is_wider_than_a_window_of_1280_pixels_and_the_headings_stay(browser, tmp_path):
    """Fifteen columns and fifty rows, a long name, a long title, a long line: the page itself
    scrolls up and down only.
    """
    text = (
        SESSION.replace("Rows", "Rows" * 60)
        .replace("SELECT a", f"SELECT {'a' * 300}")
        .replace(" 1 | x", f" 1 | {'x' * 300}")
    )
    setups = [
        Setup(subscriber, major)
        for subscriber in ("native", "sqlite", "duckdb", "mariadb", f"postgresql+psycopg://me@{'host.' * 20}org/db")
        for major in (18, 16, 15)
    ]
    rows = [session(f"{number:03}_{'n' * 60}", text) for number in range(50)]
    results = [
        replace(result, setup=setup)
        for result in [played(row, setups[0], {FILTERED: "y" * 300}, seconds=59.9) for row in rows]
        for setup in setups
    ]
    page = tmp_path / "report.html"
    write_report(page, [(result, result.outcome) for result in results], {})
    seen, _ = browser.look(
        page,
        SHOWN
        + """
        const root = document.documentElement;
        const cells = [...document.querySelectorAll("td a")];
        seen.table = root.scrollWidth;
        seen.cut = cells.filter((cell) => cell.scrollWidth > cell.clientWidth).length;
        window.scrollTo(0, 2000);
        seen.heading = document.querySelector("thead").getBoundingClientRect().top;
        await click(cells[7]);
        seen.session = root.scrollWidth;
        """,
    )
    assert seen == {"table": 1280, "cut": 0, "heading": 0, "session": 1280}


CONTRAST = """
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [red, green, blue] = channels(colour).slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = window.getComputedStyle(one).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0) return colour;
    }
  };
  const contrasts = () => {
    const found = {};
    const texts = document.createTreeWalker(document.body, 4);
    while (texts.nextNode()) {
      const element = texts.currentNode.parentElement;
      if (!shown(element) || !texts.currentNode.data.trim()) continue;
      const [low, high] = [window.getComputedStyle(element).color, ground(element)].map(luminance).sort((a, b) => a - b);
      const name = `${element.closest("[class]")?.className} ${element.tagName}`;
      found[name] = Math.min(found[name] ?? 99, (high + 0.05) / (low + 0.05));
    }
    return found;
  };
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_the_contrast_that_wcag_asks_for(browser, page, dark):
    """4.5:1, on the table and on a session of each kind, in the scheme that the person prefers."""
    seen, _ = browser.look(
        page,
        SHOWN
        + CONTRAST
        + """
        seen.ground = luminance(ground(document.body));
        seen.contrasts = contrasts();
        for (const cell of document.querySelectorAll("td a")) {
          await click(cell);
          Object.assign(seen.contrasts, contrasts());
        }
        """,
        dark=dark,
    )
    assert (seen["ground"] < 0.1) is dark
    for kind in (
        "failed-as-expected",
        "passed-unexpectedly",
        "skipped",
        "changed",
        "aside",
        "error",
        "prompt publisher",
    ):
        assert any(kind in name for name in seen["contrasts"]), kind
    assert {name: ratio for name, ratio in seen["contrasts"].items() if ratio < 4.5} == {}


def test_a_picture_of_the_page_has_its_size_and_a_session_looks_different(browser, page, tmp_path):
    table, opened = tmp_path / "table.png", tmp_path / "session.png"
    browser.screenshot(page.as_uri(), table)
    browser.screenshot(f"{page.as_uri()}#{FAILED}", opened)
    data = [picture.read_bytes() for picture in (table, opened)]
    assert [struct.unpack(">II", one[16:24]) for one in data] == [(1280, 800)] * 2
    assert data[0] != data[1]
