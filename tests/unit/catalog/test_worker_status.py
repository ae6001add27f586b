"""What the workers of `subscriber run` do."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

from subscriber.catalog.counters import WorkerCounters
from subscriber.catalog.own_tables import STAT_SUBSCRIPTION
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import delete_subscription, insert_subscription
from subscriber.catalog.worker_status import WorkerStatus, read_worker_statuses, write_worker_statuses

STREAMING = WorkerStatus(1, "streaming", "2026-11-27T12:00:00.000+00:00")
RETRYING = WorkerStatus(
    1, "retrying", "2026-11-27T12:01:00.000+00:00", "ERROR:  away", 3, "2026-11-27T12:01:09.000+00:00"
)


def test_a_status_replaces_the_one_before_and_leaves_the_others(connection):
    other = replace(STREAMING, subid=2)
    write_worker_statuses(connection, [STREAMING, other])
    write_worker_statuses(connection, [RETRYING])
    assert read_worker_statuses(connection) == {1: RETRYING, 2: other}


def test_a_subscription_that_is_dropped_leaves_no_status(connection):
    """Numbers of subscriptions are used again."""
    insert_subscription(connection, "s", "", ("p",), SubscriptionOptions(slot_name="s"))
    write_worker_statuses(connection, [RETRYING])
    delete_subscription(connection, "s")
    assert read_worker_statuses(connection) == {}


def test_a_counter_is_a_column_a_key_of_the_status_and_has_a_name_for_people():
    for counter in fields(WorkerCounters):
        assert counter.name in STAT_SUBSCRIPTION.columns
        assert counter.name in asdict(STREAMING)
        assert counter.metadata["shown"]
