"""What the pages of the dashboard show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.base.retry import FailedAttempts
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.operate.dashboard import Pages, overview, sparkline, subscription_page
from subscriber.operate.lag_history import History, HistoryPoint
from subscriber.operate.observation import Observation
from subscriber.operate.sampler import PublisherSample
from tests.dashboards import PageReader, pages_of
from tests.observations import NOW, observation, relations, run_of, subscription

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
"""Control characters are shown as pictures (tests/unit/base/test_html_templates.py)."""


def pages(*observations: Observation) -> Pages:
    return pages_of(lambda: run_of(*observations))


def page_of(one: Observation, subid: int | None = 1) -> str:
    page = pages(one).page(subid)
    assert page is not None
    return bytes(page.body).decode()


def failing(message: str, **fields: Any) -> dict[str, Any]:
    return {"applying": FailedAttempts(ConflictError(message, lsn=LSN(0x500), **fields), 2, 2, since=NOW - 60)}


@settings(max_examples=40)
@given(TEXTS, TEXTS, TEXTS)
def test_whatever_names_and_errors_contain_stays_text(name, table, error):
    plain = page_of(observation("s", worker={**failing("no"), "relations": relations("t")}))
    found = PageReader(page_of(observation(name, worker={**failing(error), "relations": relations(table)})))
    assert found.elements == PageReader(plain).elements
    assert f"public.{table}" in found.text
    assert error in found.text


def test_the_worst_comes_first():
    rows = overview(
        run_of(
            observation("fine", 1),
            observation("off", 2, subscription=subscription("off", 2, enabled=False), worker=None),
            observation("retries", 3, worker=failing("duplicate key")),
            observation("stopped", 4, worker={"stopped": True}),
        ),
        History(),
    )["rows"]
    assert [row.name for row in rows] == ["stopped", "retries", "fine", "off"]
    assert (rows[1].error, rows[1].since, rows[1].is_bad) == ("ERROR:  duplicate key", "2027-01-15 07:59:00 UTC", True)


def test_nothing_secret_is_on_a_page():
    page = page_of(observation(worker=failing("no")))
    assert "host=db" in page
    assert "secret" not in page


def test_options_are_written_as_in_a_command_and_only_those_that_are_stored():
    of = subscription(options=SubscriptionOptions(slot_name=None, binary=True))
    options = dict(subscription_page(observation(subscription=of), History().of(1))["options"])
    assert (options["slot_name"], options["binary"], options["failover"]) == ("NONE", "true", "false")
    assert not {"connect", "copy_data", "create_slot"} & options.keys()


def test_values_that_a_conflict_shows_in_the_log_are_not_on_the_page():
    of = subscription(options=SubscriptionOptions(slot_name="s", log_conflict_values=True))
    one = observation(subscription=of, worker=failing("duplicate key", detail="Key (a)=(42) exists.", hint="Skip it."))
    assert subscription_page(one, History().of(1))["error"] == "ERROR:  duplicate key\nHINT:  Skip it."


def test_what_holds_the_data_back_is_at_its_place():
    away = observation(publisher=PublisherSample((), {}, 0, "could not connect"))
    places = {place.title: place.problem for place in subscription_page(away, History().of(1))["places"]}
    assert places == {"Publisher": "could not connect", "Received": None, "Journal": None, "Applied": None}


def test_a_sparkline_has_gaps_where_nothing_is_known():
    points = [HistoryPoint(NOW - 20, 1.0, 0), HistoryPoint(NOW - 10, None, 0), HistoryPoint(NOW, 2.0, 0)]
    assert sparkline(points, NOW) == "M119.3 12.0 M120.0 2.0"


def test_a_lag_of_tenths_of_a_second_is_no_peak():
    assert sparkline([HistoryPoint(NOW, 0.1, 0)], NOW) == "M120.0 20.0"


def test_a_history_has_rates_and_forgets_what_was_dropped():
    history = History()
    for second, rows in ((0, 100), (10, 300)):
        one = observation(worker={"counts": {("rows", "public", "a", "insert"): rows}})
        history.record(run_of(replace(one, now=NOW + second)))
    assert history.of(1).points[-1].rate == 20.0
    assert history.of(1).rates == {("public", "a"): 20.0}
    history.record(run_of())
    assert not history.of(1).points


@pytest.mark.parametrize("subid", [None, 1])
def test_a_fragment_is_the_content_of_its_page(subid):
    fragment = pages(observation()).fragment(subid)
    assert fragment is not None
    assert fragment in page_of(observation(), subid)


def test_a_subscription_that_is_gone_has_no_page():
    assert pages(observation()).page(2) is None
    assert pages(observation()).fragment(2) is None


def test_the_catalog_that_cannot_be_read_is_said():
    fragment = pages_of(lambda: run_of(observation(), failed_polls=1)).fragment(None)
    assert fragment is not None
    assert "The target's catalog cannot be read (1 attempt)" in fragment
    assert "cannot be read" not in (pages(observation()).fragment(None) or "")
