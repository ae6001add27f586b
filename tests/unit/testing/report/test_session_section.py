"""A session on the page: its statements, and the reasons for its verdict."""

from __future__ import annotations

from dataclasses import replace

from subscriber.testing.run_session import Result
from subscriber.testing.stage import Setup
from tests.report_pages import LISTED, NATIVE, ONE_ROW, SQLITE, columns, place, report
from tests.sessions import CREATE_SUBSCRIPTION, FILTERED, ORDERED, played, session


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


def test_a_disagreement_about_a_publication_is_shown_at_its_statement():
    result = played(session(), Setup("sqlite", 18, "emulated"))
    first = replace(result.exchanges[0], disagreement="the server accepted it")
    page = report([replace(result, exchanges=(first, *result.exchanges[1:]))])
    (article,) = page.all("article", "differs")
    assert "the server accepted it" in article.text
