"""The page of a cutover and of comparisons: what the catalog has, and what it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from subscriber.base.lsn import LSN
from subscriber.catalog.cutovers import ASKED, Cutover, claim_cutover, leave_cutover, write_cutover
from subscriber.catalog.leases import LeaseKind, new_lease
from subscriber.catalog.schema_changes import SchemaChange
from subscriber.operate.cutover_page import CutoverFacts, cutover_shown
from subscriber.verify.report import TableVerification, VerifyReport
from tests.dashboards import PageReader, ServedDashboard, served_dashboard
from tests.observations import observation

PAGE = "/subscriptions/1/cutover"
MARKUP = "<b>t</b>"
DIFFERS = TableVerification("public.t", "main.t", LSN(0x200), 1000, 998, differing=3, only_publisher=2, notes=(MARKUP,))
EQUAL = TableVerification("public.u", "main.u", LSN(0x200), 7, 7)


@pytest.fixture
def dashboard(tmp_path) -> Iterator[ServedDashboard]:
    with served_dashboard(tmp_path) as served:
        yield served


def carry_out(dashboard: ServedDashboard, *, ends: bool = True, **changes: Any) -> None:
    with dashboard.target.begin() as connection:
        cutover = replace(claim_cutover(connection, "s", 1), **changes)
        write_cutover(connection, cutover, "s")
        if ends:
            leave_cutover(connection, cutover)


def states(page: PageReader) -> dict[str, str]:
    return {row[0].partition(". ")[2]: row[1] for row in page.rows if row[0][:1].isdigit()}


def test_a_cutover_that_stopped_shows_the_step_and_the_ways_on(dashboard):
    found = {"preconditions": {"tables": 2}, "schema": {"missing": [f"view {MARKUP}"]}}
    carry_out(dashboard, step="barrier", barrier=LSN(0x300), findings=found, options={ASKED: "--verify --timeout 5s"})
    page = dashboard.ask(PAGE).read
    assert states(page) == {
        "preconditions": "done", "schema complete": "done", "writes stopped": "done", "barrier drained": "stopped here",
        "sequences set": "to come", "verified": "to come", "way back prepared": "not asked for",
        "switched over": "to come",
    }  # fmt: skip
    for said in ("2 tables ready", f"accepted as missing: view {MARKUP}", "barrier 0/300",
                 "to go on: subscriber cutover s --verify --timeout 5s", "to go back: subscriber cutover s --abandon"):  # fmt: skip
        assert said in page.text
    assert "b" not in page.elements


def test_a_step_that_a_command_carries_out_is_in_progress(dashboard):
    carry_out(dashboard, ends=False, step="writes", options={"fence": {"database": "shop"}})
    page = dashboard.ask(PAGE).read
    assert states(page)["writes stopped"] == "in progress"
    assert "carried out by process" in page.text
    assert 'database "shop" of the publisher is fenced' in page.text


def test_a_switch_shows_the_comparison_that_it_was_made_with(dashboard):
    report = VerifyReport("s", (DIFFERS, EQUAL)).as_json()
    verified = {"is_equal": False, "lsn": "0/200", "report": report}
    carry_out(dashboard, state="switched", step="switch", switched_at="2026-11-28T10:00:00+00:00", barrier=LSN(0x200),
              options={ASKED: "--verify --reverse", "reverse": {"name": "s_back"}}, findings={"verify": verified})  # fmt: skip
    page = dashboard.ask(PAGE).read
    assert set(states(page).values()) == {"done"}
    assert ["public.t", "1,000", "998", "3", "2", "0", MARKUP] in page.rows
    assert ["public.u", "7", "7", "0", "0", "0", ""] in page.rows
    assert "at 0/200: they differ" in page.text
    assert 'way back "s_back"' in page.text
    assert "to stay: subscriber cutover s --finish" in page.text


def test_without_a_cutover_the_page_says_what_is_not_known(dashboard):
    page = dashboard.ask(PAGE).read
    assert not page.rows
    assert "No cutover is in progress" in page.text
    assert "it is not known here when the tables were last compared" in page.text


def test_an_abandoned_cutover_is_over(dashboard):
    carry_out(dashboard, state="abandoned", step="writes", abandoned_at="2026-11-28T11:00:00+00:00")
    page = dashboard.ask(PAGE).read
    assert "abandoned at 2026-11-28T11:00:00+00:00" in page.text
    assert not states(page)


def test_a_command_that_holds_the_apply_and_tables_that_may_differ_are_shown():
    hold = replace(new_lease(LeaseKind.PAUSE, 1), state="held", reached=LSN(0x300))
    change = SchemaChange("2026", "public.t", None, None, "Renamed.", "It differs.", None, "public", "t")
    shown = cutover_shown(observation(pause=hold), CutoverFacts(None, [change]), None)
    assert (shown["hold"], shown["held_at"], shown["differing"]) == (hold, "0/300", [change])


def test_a_target_that_does_not_answer_is_said_and_nothing_is_claimed():
    shown = cutover_shown(observation(), None, "the target is not available")
    assert (shown["is_known"], shown["steps"], shown["summary"]) == (False, [], None)


def test_a_cutover_without_effects_that_nobody_carries_out_is_none():
    shown = cutover_shown(observation(), CutoverFacts(Cutover(1, "running", "preconditions", "2026"), []), None)
    assert (shown["summary"], shown["steps"]) == (None, [])


def test_an_open_page_follows_the_cutover(dashboard):
    page = dashboard.ask(PAGE)
    assert 'data-events="/events?subscription=1&amp;view=cutover"' in page.content
