"""The report's page; what a browser makes of it is tested in
tests/conformance/test_report_in_browser.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

import pytest

from subscriber.errors import UsageError
from subscriber.scenario.expected_failures import Expected, judge
from subscriber.scenario.report.page import report_page, write_report
from subscriber.scenario.run_session import Result
from subscriber.scenario.stage import Setup
from tests.sessions import CREATE_SUBSCRIPTION, FILTERED, ORDERED, played, session

NATIVE, SQLITE = Setup("native", 18), Setup("sqlite", 18)
LISTED = {("101_filter", "sqlite", "server"): Expected("filters are not there yet", 4)}
ONE_ROW = " a | b\n---+---\n 1 | x\n(1 row)"


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    inside: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(one if isinstance(one, str) else one.text for one in self.inside)

    @property
    def classes(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    def all(self, name: str = "", class_: str = "") -> list[Element]:
        """The elements in it, those in those too."""
        found: list[Element] = []
        for one in self.inside:
            if isinstance(one, Element):
                if name in ("", one.name) and (not class_ or class_ in one.classes):
                    found.append(one)
                found += one.all(name, class_)
        return found


class Reader(HTMLParser):
    """Reads a page as a browser does, and refuses what a browser would have to mend."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Element("page", {})
        self._open = [self.page]

    def handle_starttag(self, tag, attrs):
        one = Element(tag, dict(attrs))
        self._open[-1].inside.append(one)
        if tag not in ("meta", "col", "input"):
            self._open.append(one)

    def handle_endtag(self, tag):
        assert self._open.pop().name == tag

    def handle_data(self, data):
        self._open[-1].inside.append(data)


def read(page: str) -> Element:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader.page


def report(results: Sequence[Result], expected=None) -> Element:
    expected = expected or {}
    return read(report_page([(result, judge(result, expected)) for result in results], expected, "made today"))


def place(page: Element, anchor: str) -> Element:
    [found] = [one for one in page.all() if one.attributes.get("id") == anchor]
    return found


def columns(statement: Element) -> list[list[str]]:
    """Both sides, line by line."""
    return [side.text.split("\n") for side in statement.all(class_="lines")]


# --- the table ------------------------------------------------------------------------------------


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


def test_two_scenarios_of_one_name_have_rows_and_sessions_of_their_own():
    """Folders may be given together, each with a file of that name."""
    other = replace(session(), title="Another file")
    page = report([played(session(), SQLITE), played(other, SQLITE, {ORDERED: ONE_ROW})])
    assert [row.all("td")[0].all("a")[0].classes for row in page.all("tbody")[0].all("tr")] == [["passed"], ["failed"]]
    assert len(page.all("section")) == 2


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


# --- a session ------------------------------------------------------------------------------------


def test_a_statement_shows_its_prompts_its_line_and_both_outputs():
    page = report([played(session(), NATIVE)])
    statement = place(page, f"session:101_filter:native:18:line-{CREATE_SUBSCRIPTION}")
    assert statement.all("pre")[0].text.split("\n") == [
        "test_sub=# CREATE SUBSCRIPTION s",
        "test_sub-# CONNECTION 'dbname=test_pub' PUBLICATION p;",
    ]
    assert statement.all(class_="line-number")[0].text == "4"
    output = ['NOTICE:  created replication slot "s" on publisher']
    assert [side.all(class_="aside")[0].text.split("\n") for side in statement.all(class_="lines")] == [output, output]
    assert [side.all("div")[-1].text for side in statement.all(class_="lines")] == ["CREATE SUBSCRIPTION"] * 2


def test_a_second_session_of_a_node_is_in_its_prompt():
    statement = place(report([played(session(), NATIVE)]), "session:101_filter:native:18:line-8")
    assert statement.all("pre")[0].text.startswith("test_pub/2=# INSERT")


def test_lines_that_differ_are_marked_on_their_side_and_hold_their_place_on_the_other():
    page = report([played(session(), SQLITE, {ORDERED: ONE_ROW, FILTERED: " a\n---\n 3\n(1 row)"})])
    missing = place(page, f"session:101_filter:sqlite:18:line-{ORDERED}")
    assert "differs" in missing.classes
    left, right = missing.all(class_="lines")
    assert [(one.classes, one.text) for one in left.all("div")] == [
        ([], " a | b\n---+---\n 1 | x"),
        (["missing"], " 2 | y"),
        (["changed"], "(2 rows)"),
    ]
    assert [(one.classes, one.text) for one in right.all("div")] == [
        ([], " a | b\n---+---\n 1 | x"),
        ([], " "),
        (["changed"], "(1 row)"),
    ]
    changed = place(page, f"session:101_filter:sqlite:18:line-{FILTERED}").all(class_="changed")
    assert [one.all("mark")[0].text for one in changed] == ["2", "3"]


def test_the_statements_that_failed_are_named_at_the_top_with_links():
    page = report([played(session(), SQLITE, {ORDERED: ONE_ROW, FILTERED: "ERROR:  no"})])
    [reason] = page.all(class_="why")
    assert reason.text == f"Failed statements: line {ORDERED}, line {FILTERED}"
    assert [link.attributes["href"] for link in reason.all("a")] == [
        f"#session:101_filter:sqlite:18:line-{line}" for line in (ORDERED, FILTERED)
    ]


def test_a_statement_that_did_not_end_shows_its_error_and_those_after_it_were_not_run():
    error = "ERROR:  the subscriptions did not settle\nDETAIL:  s: enabled"
    page = report([played(session(), SQLITE, ended_at=CREATE_SUBSCRIPTION, error=error)])
    states = [(one.classes[1], one.all(class_="typed")[0].all("span")[-1].text) for one in page.all("article")]
    assert states == [("agrees", ""), ("broken", "did not end"), *[("unreached", "not run")] * 3]
    broken = page.all("article")[1]
    assert broken.all(class_="error")[0].text == error
    assert columns(page.all("article")[2]) == [["INSERT 0 2"], [" "]]


def test_a_skipped_session_says_why_and_shows_what_would_have_run():
    page = report([Result(session(), SQLITE, (), 0.0, skipped="needs two_phase")])
    assert page.all(class_="why")[0].text == "Skipped: needs two_phase."
    assert [one.classes for one in page.all("article")] == [["statement", "unreached"]] * 5
    assert page.all("td")[0].all("a")[0].attributes["title"] == "skipped: needs two_phase"


def test_an_expected_failure_names_its_reason_and_issue_whether_it_failed_or_passed():
    failed = report([played(session(), SQLITE, {ORDERED: ONE_ROW})], LISTED)
    assert failed.all(class_="why")[0].text == "Expected to fail until issue 4 is done: filters are not there yet"
    passed = report([played(session(), SQLITE)], LISTED)
    assert passed.all(class_="why")[0].text == (
        "Passed, although it was expected to fail until issue 4 is done. Remove it from expected_failures.toml. The reason in the file: filters are not there yet"
    )


def test_a_failed_cleanup_is_shown_although_every_statement_passed():
    page = report([played(session(), SQLITE, leftover="ERROR:  database is in use")])
    assert [one.text for one in page.all(class_="why")] == ["The cleanup failed:ERROR:  database is in use"]


def test_a_session_leads_to_the_same_scenario_in_the_other_setups_and_to_its_row():
    page = report([played(session(), NATIVE), played(session(), SQLITE, {ORDERED: ONE_ROW})])
    one = place(page, "session:101_filter:native:18")
    others = one.all("ul", "others")[0].all("a")
    assert [(link.text, link.attributes.get("aria-current")) for link in others] == [
        ("✓native, PostgreSQL 18: passed, 1.2 s", "page"),
        ("✗sqlite, PostgreSQL 18: failed, 1.2 s", None),
    ]
    assert one.all(class_="back")[0].attributes["href"] == "#scenario:101_filter"


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


# --- what others wrote ----------------------------------------------------------------------------


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


# --- the file -------------------------------------------------------------------------------------


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


def test_who_filters_makes_a_column_and_a_session_of_its_own():
    results = [played(session(), setup) for setup in (SQLITE, Setup("sqlite", 18, "emulated"))]
    page = report(results)
    _, versions = page.all("thead")[0].all("tr")
    assert [one.text for one in versions.all("th")] == ["PostgreSQL 18no failures", "PostgreSQL 18emulatedno failures"]
    (row,) = page.all("tbody")[0].all("tr")
    anchors = [(link.attributes["href"] or "").removeprefix("#") for link in row.all("td") for link in link.all("a")]
    assert len({place(page, anchor).attributes["id"] for anchor in anchors}) == 2


def test_a_disagreement_about_a_publication_is_shown_at_its_statement():
    result = played(session(), Setup("sqlite", 18, "emulated"))
    first = replace(result.exchanges[0], disagreement="the server accepted it")
    page = report([replace(result, exchanges=(first, *result.exchanges[1:]))])
    (article,) = page.all("article", "differs")
    assert "the server accepted it" in article.text
