"""The report's page; what a browser makes of it is tested in
tests/conformance/test_report_in_browser.py.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from subscriber.base.errors import UsageError
from subscriber.testing.library import Expected
from subscriber.testing.run_session import Result
from subscriber.testing.session_page import report_page, write_report
from subscriber.testing.stage import Setup
from tests.report_pages import NATIVE, ONE_ROW, SQLITE, report
from tests.sessions import ORDERED, played, session


def test_every_anchor_is_there_once_and_nothing_refers_to_anything_else():
    results = [played(session(name), setup) for setup in (NATIVE, SQLITE) for name in ("a#b c", "a-b-c", "x?y")]
    page = report([*results, played(replace(session("a-b-c"), title="Another"), SQLITE, {ORDERED: ONE_ROW})])
    anchors = [one.attributes["id"] for one in page.all() if "id" in one.attributes]
    assert len(set(anchors)) == len(anchors)
    links = [one.attributes["href"] or "" for one in page.all() if "href" in one.attributes]
    assert {link.removeprefix("#") for link in links} <= set(anchors)
    assert [one.name for one in page.all() if "src" in one.attributes or one.name in ("link", "img", "iframe")] == []
    assert re.search(r"url\(|@import", page.all("style")[0].text) is None


def test_a_page_of_nothing_says_so():
    page = report([])
    assert page.all("title")[0].text == "Scenarios: nothing was run"
    assert (page.all("table"), page.all("p", "nothing")[0].text) == ([], "Nothing was run.")


def test_nothing_that_stands_in_a_session_becomes_markup():
    """Names, titles, statements, outputs, errors and reasons are text; only our own script
    is one.
    """
    nasty = "</script></style><script>alert('1')</script><b onclick=\"x\">&lt;"
    text = f"-- T {nasty}\ntest_pub=# SELECT '{nasty}';\n{nasty}\ntest_pub=# SELECT 2;\n"
    scenario = session(f"n {nasty}", text)
    setup = Setup(nasty, 18)
    results = [
        played(scenario, setup, {2: f"other {nasty}"}, leftover=nasty),
        played(session("two", text), setup, ended_at=2, error=f"E {nasty}"),
        Result(session("three", text), setup, (), 0.0, skipped=nasty),
    ]
    page = report(results, {("two", nasty): Expected(nasty, 1)})
    assert len(page.all("script")) == 1
    assert len(page.all("style")) == 1
    assert [one.attributes for one in page.all() if "onclick" in one.attributes] == []
    everything = page.text
    for whole in (
        f"T {nasty}",
        f"n {nasty}",
        f"SELECT '{nasty}';",
        f"other {nasty}",
        f"E {nasty}",
        f"Skipped: {nasty}.",
    ):
        assert whole in everything, whole


def test_the_page_allows_no_script_but_its_own():
    [policy] = [one for one in report([]).all("meta") if "http-equiv" in one.attributes]
    assert re.fullmatch(
        r"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[\w+/]{43}='",
        policy.attributes["content"] or "",
    )


def test_a_targets_password_is_not_on_the_page():
    """Invariant names_are_data."""
    setup = Setup("postgresql+psycopg://me:s3cret@host/db?password=s3cret", 18)
    page = report_page([(played(session(), setup, {ORDERED: ONE_ROW}), "failed")], {}, "")
    assert "postgresql+psycopg://me:***@host/db" in page
    assert "s3cret" not in page


def test_the_file_is_written_over_what_was_there_and_says_when_and_by_what(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old" * 100_000)
    write_report(path, [(played(session(), NATIVE, {ORDERED: "half a pair: \ud800"}), "failed")], {})
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>\n<html")
    assert text.endswith("</html>")
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC, subscriber \d", text)


def test_a_report_that_cannot_be_written_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(UsageError, match="cannot be written") as refusal:
        write_report(tmp_path / "no_such_folder" / "report.html", [], {})
    assert refusal.value.hint
