"""Counters of errors and conflicts, and the last error: it is kept until it is resolved."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.errors import ConflictError
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import SUBSCRIPTION_STATS, ConflictKind
from subscriber.catalog.statistics import count_conflicts, record_error, resolve_error, statistics_of
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import Subscription, insert_subscription
from subscriber.catalog.table_states import (
    RelationState,
    advance_relation,
    record_relation_error,
    relations_of,
    set_relation_states,
)
from subscriber.targets import Target


class Kept:
    """The last error of the subscription "s", each step in a transaction of its own."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def fail(self, **where: object) -> None:
        with self.target.begin() as connection:
            record_error(connection, "s", "ERROR:  away", **where)  # type: ignore[arg-type]

    def resolve(self, applied: int, *, waiting: bool = True) -> bool:
        with self.target.begin() as connection:
            return resolve_error(connection, 1, applied=LSN(applied), waiting=waiting)

    @property
    def resolved_at(self) -> str | None:
        with self.target.engine.connect() as connection:
            found: str | None = statistics_of(connection, 1)["last_error_resolved_at"]
        return found


def subscribe(connection: sa.Connection, name: str) -> Subscription:
    return insert_subscription(connection, name, "", ["p"], SubscriptionOptions(slot_name="s"), "1")


@pytest.fixture
def kept(target) -> Kept:
    with target.begin() as connection:
        subscribe(connection, "s").progress.create(connection, LSN(50))
    return Kept(target)


def test_an_error_is_counted_and_the_last_one_is_kept(connection):
    for name in ("a", "b"):
        subscribe(connection, name)
    record_error(connection, "b", ConflictError("one").report())
    record_error(connection, "b", ConflictError("two").report(), lsn=0x16B3778)
    record_error(connection, "dropped", "three")
    first, second = connection.execute(sa.select(SUBSCRIPTION_STATS).order_by(SUBSCRIPTION_STATS.c.subid)).all()
    assert (first.subname, first.apply_error_count, first.last_error, first.last_error_at) == ("a", 0, None, None)
    assert (second.subname, second.apply_error_count, second.last_error) == ("b", 2, "ERROR:  two")
    assert (second.last_error_worker, second.last_error_lsn) == ("apply", "0/16B3778")
    assert second.last_error_at.endswith("+00:00")


def test_errors_of_table_synchronization_are_counted_separately(connection):
    """pg_stat_subscription_stats has apply_error_count and sync_error_count."""
    subscribe(connection, "s")
    record_error(connection, "s", "ERROR:  no", worker="sync")
    found = statistics_of(connection, 1)
    assert (found["apply_error_count"], found["sync_error_count"]) == (0, 1)
    assert (found["last_error_worker"], found["last_error_lsn"]) == ("sync", None)


def test_a_subscription_without_statistics_has_an_empty_row(connection):
    assert statistics_of(connection, 7) == {}
    assert resolve_error(connection, 7, applied=LSN(1), waiting=True)


def test_without_an_error_there_is_nothing_to_resolve(kept):
    assert kept.resolve(50)
    assert kept.resolved_at is None


def test_the_error_of_a_transaction_is_resolved_when_the_transaction_is_applied(kept):
    kept.fail(lsn=100)
    assert (kept.resolve(99, waiting=False), kept.resolved_at) == (False, None)
    assert kept.resolve(100)
    first = kept.resolved_at
    assert first is not None
    assert kept.resolve(200)
    assert kept.resolved_at == first, "the time at which the error was resolved stays"


def test_an_error_without_a_transaction_is_resolved_when_nothing_is_left_to_apply(kept):
    kept.fail()
    assert not kept.resolve(100)
    assert kept.resolve(100, waiting=False)


def test_the_error_of_a_copy_is_resolved_when_no_table_has_an_error(kept):
    kept.fail(worker="sync")
    with kept.target.begin() as connection:
        set_relation_states(connection, 1, [("public", "t")], RelationState.DATASYNC)
        record_relation_error(connection, 1, "public", "t", "ERROR:  away")
    assert not kept.resolve(100, waiting=False)
    with kept.target.begin() as connection:
        (table,) = relations_of(connection, 1)
        advance_relation(connection, 1, table, RelationState.FINISHEDCOPY, LSN(60))
    assert kept.resolve(100)


def test_a_new_error_is_not_resolved(kept):
    kept.fail(lsn=100)
    assert kept.resolve(100)
    kept.fail(lsn=120)
    assert (kept.resolved_at, kept.resolve(110)) == (None, False)


def test_conflicts_are_added_to_the_counters(connection):
    count_conflicts(connection, 1, "sub", {})
    assert statistics_of(connection, 1) == {}
    count_conflicts(connection, 1, "sub", {ConflictKind.UPDATE_MISSING: 2})
    count_conflicts(connection, 1, "sub", {ConflictKind.UPDATE_MISSING: 1, ConflictKind.DELETE_MISSING: 5})
    found = statistics_of(connection, 1)
    assert found["subname"] == "sub"
    counters = {name: number for name, number in found.items() if name.startswith("confl_") and number}
    assert counters == {"confl_update_missing": 3, "confl_delete_missing": 5}
