"""The overview of the page: counts, rows and columns."""

from __future__ import annotations

import pytest

from subscriber.testing.library import Expected
from subscriber.testing.run_session import Result
from subscriber.testing.stage import Setup
from tests.report_pages import LISTED, NATIVE, ONE_ROW, SQLITE, place, report
from tests.sessions import ORDERED, played, session


def test_the_title_and_the_list_count_every_verdict_the_worst_first():
    results = [played(session(name), NATIVE) for name in ("001_a", "002_b")]
    results += [played(session(), SQLITE, {ORDERED: ONE_ROW}), played(session("003_c"), SQLITE, {ORDERED: ONE_ROW})]
    page = report(results, LISTED)
    assert page.all("title")[0].text == "Scenarios: 1 failed, 1 failed as expected, 2 passed"
    assert [one.text for one in page.all("ul", "counts")[0].all("li")] == [
        "✗1 failed",
        "≈1 failed as expected",
        "✓2 passed",
    ]
    assert "made today" in page.all("main")[0].text


@pytest.mark.parametrize(
    ("result", "expected", "verdict", "text"),
    [
        (played(session(), SQLITE), {}, "passed", "✓passed 1.2 s"),
        (played(session(), SQLITE, {ORDERED: ONE_ROW}), {}, "failed", "✗failed 1.2 s"),
        (played(session(), SQLITE, {ORDERED: ONE_ROW}), LISTED, "failed-as-expected", "≈failed as expected 1.2 s"),
        (played(session(), SQLITE), LISTED, "passed-unexpectedly", "!passed unexpectedly 1.2 s"),
        (Result(session(), SQLITE, (), 0.0, skipped="needs psql"), {}, "skipped", "○skipped "),
    ],
    ids=["passed", "failed", "failed as expected", "passed unexpectedly", "skipped"],
)
def test_a_cell_shows_its_verdict_and_its_seconds_and_leads_to_the_session(result, expected, verdict, text):
    page = report([result], expected)
    [cell] = page.all("td")
    [link] = cell.all("a")
    assert (link.classes, link.text) == ([verdict], text)
    anchor = (link.attributes["href"] or "").removeprefix("#")
    assert place(page, anchor).name == "section"


def test_rows_are_sorted_by_name_and_columns_are_grouped_by_subscriber_in_the_order_of_the_run():
    """Files may have run in any order (--shuffle)."""
    setups = [Setup("sqlite", 18), Setup("sqlite", 16), Setup("native", 18)]
    page = report([played(session(name), setup) for setup in setups for name in ("301_b", "101_a")])
    assert [row.attributes["id"] for row in page.all("tbody")[0].all("tr")] == ["scenario:101_a", "scenario:301_b"]
    groups, versions = page.all("thead")[0].all("tr")
    assert [(one.text, one.attributes.get("colspan")) for one in groups.all("th")[1:]] == [
        ("sqlite", "2"),
        ("native", "1"),
    ]
    assert [one.text for one in versions.all("th")] == [f"PostgreSQL {major}no failures" for major in (18, 16, 18)]


def test_a_column_counts_its_failures():
    page = report([played(session("001_a"), NATIVE), played(session("001_a"), SQLITE, {ORDERED: ONE_ROW})])
    _, versions = page.all("thead")[0].all("tr")
    assert [one.all("small")[1].text for one in versions.all("th")] == ["no failures", "1 failure"]


def test_only_rows_with_a_failure_are_marked_for_the_filter():
    results = [
        played(session("001_a"), NATIVE),
        played(session("002_b"), NATIVE, {ORDERED: ONE_ROW}),
        played(session(), SQLITE),
    ]
    page = report(
        [*results, played(session("003_c"), SQLITE, {ORDERED: ONE_ROW})],
        {**LISTED, ("003_c", "sqlite", "server"): Expected("no", 5)},
    )
    assert [row.attributes["id"] for row in page.all("tr", "bad")] == ["scenario:002_b", "scenario:101_filter"]


def test_a_scenario_that_ran_in_some_setups_only_leaves_the_other_cells_empty():
    page = report([played(session("001_a"), NATIVE), played(session("002_b"), SQLITE)])
    assert [[cell.text for cell in row.all("td")] for row in page.all("tbody")[0].all("tr")] == [
        ["✓passed 1.2 s", ""],
        ["", "✓passed 1.2 s"],
    ]


def test_who_filters_makes_a_column_and_a_session_of_its_own():
    results = [played(session(), setup) for setup in (SQLITE, Setup("sqlite", 18, "emulated"))]
    page = report(results)
    _, versions = page.all("thead")[0].all("tr")
    assert [one.text for one in versions.all("th")] == ["PostgreSQL 18no failures", "PostgreSQL 18emulatedno failures"]
    (row,) = page.all("tbody")[0].all("tr")
    anchors = [(link.attributes["href"] or "").removeprefix("#") for link in row.all("td") for link in link.all("a")]
    assert len({place(page, anchor).attributes["id"] for anchor in anchors}) == 2
