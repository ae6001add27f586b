"""Conflicts and publications on a subscription's page, which ask the target and the publisher."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import ConflictKind
from subscriber.catalog.publications import insert_publication
from subscriber.catalog.statistics import ConflictLog, ConflictRecord
from subscriber.operate import subscription_details
from subscriber.operate.observation import Observation
from subscriber.operate.page_sources import PageSources
from subscriber.operate.subscription_details import (
    DetailsOfSubscriptions,
    LatestAnswer,
    SubscriptionDetails,
    details_shown,
)
from subscriber.postgres.publication.definition import Publication, TableEntry
from tests.dashboards import ServedDashboard, served_dashboard
from tests.observations import observation
from tests.waits import wait_until

SECRET = "<b>secret</b>"
EXISTS = ConflictRecord(
    ConflictKind.INSERT_EXISTS, "main.t", LSN(0x500), 7, 0, "t_pkey", ["a"], remote_tuple={"a": SECRET}
)
MISSING = ConflictRecord(ConflictKind.UPDATE_MISSING, "main.u", LSN(0x100), 6, 0, replica_identity={"a": SECRET})


@pytest.fixture(params=[False, True], ids=["without values", "with values"])
def conflicting(request, tmp_path) -> Iterator[tuple[ServedDashboard, bool]]:
    """A subscription with a conflict that it has passed, and one that stops it."""
    with served_dashboard(tmp_path, show_values=request.param, carrier="c") as served:
        with served.target.begin() as connection:
            log = ConflictLog(connection, 1, "s")
            log.write([MISSING])
            log.write_stop([EXISTS])
            log.write_stop([EXISTS])
        served.worker["applied"] = LSN(0x400)
        yield served, request.param


def test_conflicts_are_listed_with_the_statement_that_skips_what_they_hold_up(conflicting):
    served, _ = conflicting
    page = served.ask("/subscriptions/1").read
    stops, passed = (row for row in page.rows if row[1:2] and row[1] in ("insert_exists", "update_missing"))
    assert stops[1:6] == ["insert_exists", "main.t", "0/500", "t_pkey", "2"]
    assert "ALTER SUBSCRIPTION s SKIP (lsn = '0/500');" in stops[6]
    assert passed[1:6] == ["update_missing", "main.u", "0/100", "", "1"]
    assert "SKIP" not in passed[6]
    assert page.links["0/500"] == "/subscriptions/1/journal/transaction?lsn=0/500"


def test_values_of_a_conflict_are_shown_only_if_the_run_shows_them(conflicting):
    """Invariant names_are_data."""
    served, shows_values = conflicting
    page = served.ask("/subscriptions/1").read
    assert (SECRET in page.text) is shows_values
    assert "b" not in page.elements


def test_a_statement_is_offered_once(conflicting):
    served, _ = conflicting
    with served.target.begin() as connection:
        ConflictLog(connection, 1, "s").write_stop(
            [ConflictRecord(ConflictKind.UPDATE_EXISTS, "main.t", LSN(0x500), 7, 0)]
        )
    assert served.ask("/subscriptions/1").read.text.count("SKIP (lsn = '0/500')") == 1


def test_emulated_publications_are_shown_with_their_filters(tmp_path):
    entries = (TableEntry("public", "t", ("a", "B"), "(a > 1)"), TableEntry("public", "u"))
    with served_dashboard(tmp_path, carrier="c") as served:
        with served.target.begin() as connection:
            publication = Publication(
                "p", tables=entries, schemas=("sales",), publish=frozenset({"insert"}), via_root=True
            )
            insert_publication(connection, publication, "ann")
        page = served.ask("/subscriptions/1").read
    published = "insert, as the partition root"
    assert [row for row in page.rows if row[:1] == ["p"]] == [
        ["p", published, "all tables in schema sales", "all", ""],
        ["p", published, "public.t", 'a, "B"', "(a > 1)"],
        ["p", published, "public.u", "all", ""],
    ]
    assert "evaluated by the subscriber" in page.text


def test_all_tables_have_their_exceptions():
    found = [
        Publication("p", all_tables=True, excepted=(("public", "t"),), publish=frozenset()),
        Publication("q", all_sequences=True),
        Publication("r"),
    ]
    shown = details_shown(SubscriptionDetails(publications=LatestAnswer(found)), observation(), ())
    assert [(row.publishes, row.member) for row in shown["publication_rows"]] == [
        ("nothing", "all tables except public.t"),
        ("insert, update, delete, truncate", "all sequences"),
        ("insert, update, delete, truncate", "no table"),
    ]


def test_what_is_not_known_says_why(tmp_path):
    with served_dashboard(tmp_path, carrier="c") as served:
        page = served.ask("/subscriptions/1").read.text
    assert 'The publications are not known: publication "p" does not exist' in page


class HeldUp:
    """Conflicts that come when :attr:`answers` is set; ``asked`` counts the questions."""

    def __init__(self) -> None:
        self.answers, self.asked = threading.Event(), 0

    def __call__(self, *_: object, **__: object) -> list[object]:
        self.asked += 1
        self.answers.wait(60)
        return []


@pytest.fixture
def held_up(monkeypatch, served_sources) -> Iterator[HeldUp]:
    held = HeldUp()
    monkeypatch.setattr(subscription_details, "newest_conflicts", held)
    yield held
    held.answers.set()


@pytest.fixture
def served_sources(tmp_path) -> Iterator[tuple[PageSources, Observation]]:
    from subscriber.base.settings import Settings

    with served_dashboard(tmp_path, carrier="c") as served:
        yield PageSources(served.target, Settings(str(tmp_path))), served.observed()


def test_a_target_that_does_not_answer_is_asked_once_and_holds_no_page_up(held_up, served_sources):
    sources, one = served_sources
    details = DetailsOfSubscriptions(sources)
    for _ in range(3):
        assert details.of(one.subscription, may_wait=False).conflicts == LatestAnswer()
    wait_until(lambda: held_up.asked)
    assert details.of(one.subscription, may_wait=True).conflicts == LatestAnswer()
    copied = replace(one.subscription, version=one.subscription.version + 1)
    assert details.of(copied, may_wait=False).conflicts == LatestAnswer()
    assert held_up.asked == 1
    held_up.answers.set()
    wait_until(lambda: details.of(one.subscription, may_wait=False).conflicts == LatestAnswer([]))
    assert held_up.asked == 1
