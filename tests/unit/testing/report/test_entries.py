"""The place of each result on the page."""

from __future__ import annotations

from dataclasses import replace

from tests.report_pages import NATIVE, ONE_ROW, SQLITE, report
from tests.sessions import ORDERED, played, session


def test_two_scenarios_of_one_name_have_rows_and_sessions_of_their_own():
    """Folders may be given together, each with a file of that name."""
    other = replace(session(), title="Another file")
    page = report([played(session(), SQLITE), played(other, SQLITE, {ORDERED: ONE_ROW})])
    assert [row.all("td")[0].all("a")[0].classes for row in page.all("tbody")[0].all("tr")] == [["passed"], ["failed"]]
    assert len(page.all("section")) == 2


def test_the_next_failure_is_the_next_in_the_table_and_the_first_after_the_last():
    names = ["001_a", "002_b", "003_c", "004_d"]
    failing = {"002_b", "004_d"}
    page = report(
        [played(session(name), NATIVE, {ORDERED: ONE_ROW} if name in failing else {}) for name in reversed(names)]
    )
    following = [section.all("nav")[0].all("a")[1].attributes["href"] for section in page.all("section")]
    assert following == [f"#session:{name}:native:18" for name in ("002_b", "004_d", "004_d", "002_b")]


def test_the_only_failure_leads_to_no_other():
    page = report([played(session("001_a"), NATIVE), played(session("002_b"), NATIVE, {ORDERED: ONE_ROW})])
    assert [len(section.all("nav")[0].all("a")) for section in page.all("section")] == [2, 1]
