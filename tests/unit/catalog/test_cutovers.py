"""The row of a cutover in the catalog."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.cutovers import (
    ASKED,
    claim_cutover,
    find_cutover,
    leave_cutover,
    read_cutover,
    write_cutover,
)
from subscriber.catalog.own_tables import LEASE
from subscriber.catalog.subscriptions import delete_subscription
from tests.subscriptions import create_subscription


def stored(connection):
    found = read_cutover(connection, 1)
    assert found is not None
    return found


def claim(connection):
    return claim_cutover(connection, "s", 1)


def test_a_catalog_of_an_earlier_version_has_no_cutover(connection):
    connection.execute(sa.text("DROP TABLE subscriber_cutover"))
    assert find_cutover(connection, 1) is None


def test_a_catalog_of_an_earlier_version_has_a_cutover_and_no_lease(connection):
    begun = claim(connection)
    connection.execute(sa.text("DROP TABLE subscriber_lease"))
    assert find_cutover(connection, 1) == replace(begun, lease=None)


def test_a_claim_begins_a_cutover_and_its_row_keeps_everything(connection):
    begun = claim(connection)
    assert begun.lease is not None
    assert (begun.state, begun.step, begun.is_mine, begun.is_held) == ("running", "", True, True)
    changed = replace(
        begun,
        state="switched",
        step="switch",
        barrier=LSN(100),
        switched_at="2026-11-25T10:00:00.000+00:00",
        options={"fence": {"database": "d", "former": None, "since": "x"}},
        findings={"rows": {"public.t": 3}},
    )
    write_cutover(connection, changed, "s")
    assert replace(stored(connection), lease=begun.lease) == changed


def test_a_cutover_that_is_held_is_refused_with_its_process(connection):
    claim(connection)
    with pytest.raises(UsageError) as caught:
        claim(connection)
    assert caught.value.sqlstate == "55P03"
    assert f"process {os.getpid()} on host {socket.gethostname()}, in step preconditions" in str(caught.value.detail)


def test_a_holder_that_has_given_it_back_leaves_the_state(connection):
    begun = claim(connection)
    write_cutover(connection, replace(begun, options={"fence": 1}), "s")
    leave_cutover(connection, begun)
    again = claim(connection)
    assert (again.is_held, again.options, again.started_at) == (True, {"fence": 1}, begun.started_at)


def test_a_cutover_that_has_changed_nothing_leaves_no_trace(connection):
    begun = claim(connection)
    untouched = replace(
        begun,
        step="writes",
        options={ASKED: "--fence"},
        findings={"preconditions": {"tables": 1}, "schema": {"missing": []}},
    )
    write_cutover(connection, untouched, "s")
    leave_cutover(connection, begun)
    assert read_cutover(connection, 1) is None


@pytest.mark.parametrize(
    "effect",
    [
        {"barrier": LSN(100)},
        {"options": {"fence": {"database": "d"}}},
        {"findings": {"sequences": {"messages": []}}},
        {"state": "switched"},
        {"state": "abandoned"},
    ],
)
def test_a_cutover_that_has_changed_something_stays(connection, effect):
    begun = claim(connection)
    write_cutover(connection, replace(begun, **effect), "s")
    leave_cutover(connection, begun)
    assert stored(connection).lease is None


def test_the_cutover_of_a_dead_command_is_claimed_by_another(connection):
    first = claim(connection)
    connection.execute(sa.update(LEASE).values(processid=2**22 + 1))
    assert not stored(connection).is_held
    second = claim(connection)
    assert second.is_held
    assert second.lease != first.lease


def test_a_command_that_has_lost_its_cutover_writes_nothing(connection):
    begun = claim(connection)
    write_cutover(connection, replace(begun, barrier=LSN(100)), "s")
    leave_cutover(connection, begun)
    other = claim(connection)
    leave_cutover(connection, begun)
    with pytest.raises(UsageError, match="another command carries out"):
        write_cutover(connection, replace(begun, state="switched"), "s")
    assert read_cutover(connection, 1) == other


def test_an_abandoned_cutover_is_begun_anew(connection):
    begun = claim(connection)
    write_cutover(connection, replace(begun, state="abandoned", abandoned_at="x", options={"a": 1}), "s")
    leave_cutover(connection, begun)
    kept = stored(connection)
    assert not kept.in_progress
    again = claim(connection)
    assert (again.state, again.abandoned_at, again.options) == ("running", None, {})


def test_dropping_the_subscription_drops_its_cutover(target):
    create_subscription(target)
    with target.begin() as connection:
        begun = claim(connection)
        delete_subscription(connection, "s")
        assert read_cutover(connection, 1) is None
        with pytest.raises(UsageError, match="is gone"):
            write_cutover(connection, begun, "s")
