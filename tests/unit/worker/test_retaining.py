"""The rounds after which deleted rows are forgotten."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.base.errors import PublisherUnavailable
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import DELETED_ROW
from subscriber.catalog.table_states import RelationState, set_relation_states
from subscriber.worker.retaining import Retaining
from tests.subscriptions import stored_subscription
from tests.waits import wait_until


class Publisher:
    """A publisher with transactions in progress, from ``oldest`` on; the next one is 10."""

    def __init__(self) -> None:
        self.oldest = 5
        self.barriers = 0
        self.reachable = True
        self.in_recovery = False

    def is_standby(self) -> bool:
        return self.in_recovery

    def assign_transaction_id(self) -> int:
        return 10

    def oldest_transaction(self) -> int:
        return self.oldest

    def write_barrier(self) -> LSN:
        self.barriers += 1
        return LSN(200)


@pytest.fixture
def publisher(monkeypatch) -> Publisher:
    found = Publisher()

    @contextmanager
    def connected(_self: Any) -> Any:
        if not found.reachable:
            raise PublisherUnavailable("the connection was refused")
        yield found

    monkeypatch.setattr(Retaining, "_connected", connected)
    return found


@pytest.fixture
def state(worker_state):
    """A subscription that retains the rows of ``t``, of which one was deleted."""
    state = worker_state(retain_dead_tuples=True, max_retention_duration=1000)
    with state.target.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        set_relation_states(connection, 1, [("public", "t")], RelationState.READY)
    state.subscription = stored_subscription(state.target)
    return state


def recorded(state: Any) -> int:
    with state.target.engine.connect() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(DELETED_ROW)).scalar_one())


def delete_row(state: Any) -> None:
    with state.target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        connection.exec_driver_sql("DELETE FROM t")


def step(retaining: Retaining) -> None:
    """One step, until its end."""
    retaining._due = 0.0
    retaining.tick()
    wait_until(lambda: not retaining._stepping.is_under_way())
    retaining.tick()


def test_a_deleted_row_is_forgotten_when_what_was_in_progress_is_applied(state, publisher):
    retaining = Retaining(state, 10.0)
    step(retaining)  # creates the triggers, and begins a round without rows
    publisher.oldest, state.positions, state.applied = 10, (LSN(200), LSN(0)), LSN(200)
    step(retaining)
    delete_row(state)
    assert recorded(state) == 1
    publisher.oldest = 9
    step(retaining)
    step(retaining)
    assert (recorded(state), publisher.barriers) == (1, 1), "a transaction of the publisher is still in progress"
    publisher.oldest, state.applied, state.positions = 10, LSN(150), (LSN(250), LSN(250))
    step(retaining)
    assert (recorded(state), publisher.barriers) == (1, 2), "what it has written is not applied"
    state.applied = LSN(250)
    step(retaining)
    assert recorded(state) == 0


def test_a_publisher_that_is_away_only_makes_it_take_longer(state, publisher):
    retaining = Retaining(state, 10.0)
    publisher.reachable = False
    step(retaining)
    publisher.reachable, publisher.oldest = True, 10
    state.positions, state.applied = (LSN(200), LSN(0)), LSN(200)
    step(retaining)
    assert publisher.barriers == 1


def test_no_row_is_forgotten_while_the_publisher_is_a_standby(state, publisher, caplog):
    """Which transactions of the primary are in progress is not known there."""
    retaining = Retaining(state, 10.0)
    step(retaining)
    publisher.oldest, state.positions, state.applied = 10, (LSN(200), LSN(0)), LSN(200)
    step(retaining)
    delete_row(state)
    publisher.in_recovery = True
    step(retaining)
    step(retaining)
    assert (recorded(state), publisher.barriers) == (1, 1)
    assert "cannot enable retain_dead_tuples if the publisher is in recovery" in caplog.text
    publisher.in_recovery = False
    step(retaining)
    step(retaining)
    assert recorded(state) == 0


def test_the_retention_stops_when_a_round_takes_too_long_and_begins_again(state, publisher, caplog):
    caplog.set_level("INFO")
    retaining = Retaining(state, 10.0)
    step(retaining)
    delete_row(state)
    assert retaining._round is not None
    retaining._round.began = time.monotonic() - 2
    step(retaining)
    state.subscription = stored_subscription(state.target)
    assert (state.subscription.retention_active, recorded(state)) == (False, 0)
    assert "has stopped retaining the information for detecting conflicts" in caplog.text
    publisher.oldest, state.positions, state.applied = 10, (LSN(200), LSN(0)), LSN(200)
    step(retaining)
    assert not stored_subscription(state.target).retention_active, "this round took too long"
    step(retaining)
    step(retaining)
    assert stored_subscription(state.target).retention_active
    assert "caught up with the publisher within the configured max_retention_duration" in caplog.text


def test_a_subscription_without_the_option_asks_nobody(state, publisher):
    options = replace(state.subscription.options, retain_dead_tuples=False)
    state.subscription = replace(state.subscription, options=options)
    step(Retaining(state, 10.0))
    assert publisher.barriers == 0
