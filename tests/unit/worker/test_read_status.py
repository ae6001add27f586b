"""``subscriber status``: the lag."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from subscriber import __version__
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.settings import Settings, redact_conninfo
from subscriber.catalog.subscriptions import delete_subscription, find_subscription
from subscriber.publisher.client import Slot
from subscriber.worker import read_status
from subscriber.worker.read_status import _lag, subscription_statuses
from subscriber.worker.subscription_status import SubscriptionStatus
from tests.frames import transaction
from tests.journals import T, insert, publish, writing
from tests.subscriptions import create_subscription


def test_the_lag_has_a_part_that_is_not_received_and_a_part_that_is_not_applied():
    assert _lag(LSN(100), LSN(80), LSN(30), waiting=True) == 70
    assert _lag(LSN(100), LSN(80), LSN(30), waiting=False) == 20


def test_a_lag_behind_a_publisher_that_is_away_or_was_restored_is_not_known():
    assert _lag(None, LSN(80), LSN(30), waiting=True) is None
    assert _lag(LSN(70), LSN(80), LSN(30), waiting=True) is None


def test_the_lag_of_a_slot_that_no_run_has_taken_over_is_not_known():
    """It used to be the publisher's whole WAL since it was made."""
    assert _lag(LSN(100), INVALID_LSN, INVALID_LSN, waiting=False) is None


@pytest.fixture
def seen(tmp_path, target, monkeypatch):
    """The status of a subscription whose journal has received up to 0x300; given the progress, and
    what the publisher says.
    """
    journals = tmp_path / "journals"
    with writing(journals / "1_s") as journal:
        publish(journal, 0x300, [*transaction(0x200, T, insert(1)), *transaction(0x300, insert(2))])

    def look(applied: int, publisher: int | None, slot: Slot | None = None) -> SubscriptionStatus:
        monkeypatch.setattr(read_status, "_RECEIVED_SECONDS", 0.0)
        monkeypatch.setattr(
            read_status,
            "_at_publisher",
            lambda *_: read_status._AtPublisher(None if publisher is None else LSN(publisher), slot),
        )
        with target.begin() as connection:
            if find_subscription(connection, "s") is not None:
                delete_subscription(connection, "s")
        create_subscription(target, applied=applied)
        (found,) = subscription_statuses(target, Settings(str(journals)))
        return found

    return look


def slot_of(active_pid: int | None = None) -> Slot:
    return Slot(
        name="s",
        plugin="pgoutput",
        database="d",
        active_pid=active_pid,
        confirmed_flush_lsn=LSN(0x300),
        two_phase=False,
        lost=None,
        restart_lsn=LSN(0x180),
        wal_status="reserved",
    )


def test_the_target_is_released_before_the_publisher_is_asked(seen, target, monkeypatch):
    """A connection to DuckDB's file keeps `subscriber run` and all other processes out."""
    connected: list[object] = []
    sa.event.listen(target.engine, "checkout", lambda connection, *_: connected.append(connection))
    sa.event.listen(target.engine, "checkin", lambda connection, *_: connected.remove(connection))
    asked: list[int] = []

    def redacted(conninfo: str) -> str:
        asked.append(len(connected))
        return redact_conninfo(conninfo)

    monkeypatch.setattr(read_status, "redact_conninfo", redacted)
    seen(0x200, 0x300, slot_of())
    assert asked == [0]


def test_the_lag_in_seconds_is_the_age_of_the_oldest_commit_that_is_not_applied(seen):
    """It used to be the time since the target last moved."""
    assert seen(0x200, 0x300, slot_of()).lag_seconds > 20 * 365 * 86_400  # the test's transactions are of the year 2000


def test_the_lag_is_zero_only_where_everything_that_the_publisher_has_is_applied(seen):
    """With nobody receiving for twenty minutes, and 100 MB behind, it used to be 0.0 s."""
    assert seen(0x300, 0x300, slot_of()).lag_seconds == 0.0
    assert seen(0x300, 0x2F0, slot_of()).lag_seconds == 0.0
    assert seen(0x300, 0x6000300, slot_of()).lag_seconds is None
    assert seen(0x300, 0x6000300, slot_of(active_pid=1)).lag_seconds is None
    assert seen(0x300, None).lag_seconds is None


def test_the_status_has_the_wal_that_the_publisher_keeps_for_the_slot(seen):
    slot = seen(0x300, 0x400, slot_of()).slot
    assert (slot.retained_bytes, slot.wal_status, slot.safe_wal_bytes, slot.lost) == (0x280, "reserved", None, None)
    assert [seen(0x300, lsn).slot_missing for lsn in (None, 0x300)] == [False, True]


def test_the_status_has_the_versions_of_target_and_program(seen):
    found = seen(0x300, 0x300)
    assert re.fullmatch(r"SQLite 3\.\d+\.\d+", found.target_version)
    assert found.version == __version__
