"""The row of a cutover in the catalog."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from subscriber import catalog
from subscriber.catalog.cutovers import (
    ASKED,
    STALE_SECONDS,
    beat_cutover,
    claim_cutover,
    find_cutover,
    leave_cutover,
    read_cutover,
    write_cutover,
)
from subscriber.catalog.own_tables import CUTOVER
from subscriber.errors import UsageError
from subscriber.lsn import LSN
from tests.subscriptions import create_subscription


def stored(connection):
    found = read_cutover(connection, 1)
    assert found is not None
    return found


def claim(connection, holder="a"):
    return claim_cutover(connection, "s", 1, holder)


def test_a_catalog_of_an_earlier_version_has_no_cutover(connection):
    connection.execute(sa.text("DROP TABLE subscriber_cutover"))
    assert find_cutover(connection, 1) is None


def test_a_claim_begins_a_cutover_and_its_row_keeps_everything(connection):
    begun = claim(connection)
    assert (begun.state, begun.step, begun.host, begun.process_id) == ("running", "", socket.gethostname(), os.getpid())
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
    assert replace(stored(connection), heartbeat_at=changed.heartbeat_at) == changed


def test_a_cutover_that_is_held_is_refused_with_its_process(connection):
    claim(connection)
    with pytest.raises(UsageError) as caught:
        claim(connection, "b")
    assert caught.value.sqlstate == "55P03"
    assert f"process {os.getpid()} on host {socket.gethostname()}, in step preconditions" in str(caught.value.detail)


def test_a_holder_that_has_given_it_back_leaves_the_state(connection):
    begun = claim(connection)
    write_cutover(connection, replace(begun, options={"fence": 1}), "s")
    leave_cutover(connection, begun)
    again = claim(connection, "b")
    assert (again.holder, again.options, again.started_at) == ("b", {"fence": 1}, begun.started_at)


def test_a_cutover_that_has_changed_nothing_leaves_no_trace(connection):
    begun = claim(connection)
    untouched = replace(begun, step="writes", options={ASKED: "--fence"}, findings={"preconditions": {"tables": 1}})
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
    assert stored(connection).holder == ""


def test_a_process_that_no_longer_exists_holds_nothing(connection):
    claim(connection)
    connection.execute(sa.update(CUTOVER).values(processid=2**22 + 1))
    assert claim(connection, "b").holder == "b"


def test_a_younger_process_of_the_same_number_holds_nothing(connection):
    claim(connection)
    connection.execute(sa.update(CUTOVER).values(heartbeatat="2001-01-01T00:00:00.000+00:00"))
    assert claim(connection, "b").holder == "b"


@pytest.mark.parametrize(("seconds", "held"), [(STALE_SECONDS - 5, True), (STALE_SECONDS + 5, False)])
def test_a_holder_on_another_machine_is_judged_by_its_heartbeat(connection, seconds, held):
    claim(connection)
    beaten = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()
    connection.execute(sa.update(CUTOVER).values(host="elsewhere.invalid", heartbeatat=beaten))
    assert stored(connection).is_held is held


def test_a_command_that_has_lost_its_cutover_writes_nothing(connection):
    begun = claim(connection)
    write_cutover(connection, replace(begun, barrier=LSN(100)), "s")
    leave_cutover(connection, begun)
    other = claim(connection, "b")
    beat_cutover(connection, begun)
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
    again = claim(connection, "b")
    assert (again.state, again.abandoned_at, again.options) == ("running", None, {})


def test_dropping_the_subscription_drops_its_cutover(target):
    create_subscription(target)
    with target.begin() as connection:
        begun = claim(connection)
        catalog.delete_subscription(connection, "s")
        assert read_cutover(connection, 1) is None
        with pytest.raises(UsageError, match="is gone"):
            write_cutover(connection, begun, "s")
