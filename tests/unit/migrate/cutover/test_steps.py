"""The steps that concern the publisher: each refuses what is not clean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.table_states import RelationState, SubscriptionRelation
from subscriber.migrate.cutover.steps import Barrier, Preconditions, Switch, Writes, fence_left
from subscriber.migrate.cutover.work import StepOutcome
from subscriber.publisher.fence.read_only import UnfencedSession
from tests.subscriptions import SUBSCRIPTION
from tests.unit.migrate.cutover.fake_servers import READY, SLOT, FakeServers, a_work

COPYING = SubscriptionRelation("public", "u", RelationState.DATASYNC, None)
FAILED = SubscriptionRelation("public", "v", RelationState.DATASYNC, None, error="ERROR:  no")


@pytest.mark.parametrize(
    ("changes", "message", "details"),
    [
        ({"subscription": replace(SUBSCRIPTION, enabled=False)}, 'subscription "s" is disabled', ()),
        ({"subscription": replace(SUBSCRIPTION, slot_name=None)}, 'subscription "s" has no slot', ()),
        ({"tables": []}, 'subscription "s" has no tables', ()),
        (
            {"tables": [READY, COPYING, FAILED]},
            "2 tables are not ready",
            ('"public.u" (state d)', '"public.v" (state d, failed)'),
        ),
        ({"last_error": "ERROR:  x"}, 'subscription "s" has an error that is not resolved', ("ERROR:  x",)),
        ({"prepared": ["pg_gid_1_7"]}, "prepared transactions wait in the target", ("pg_gid_1_7",)),
        ({"runner": None}, "no `subscriber run` is running for the target", ()),
        ({"is_standby": True}, "the publisher is a standby, where no barrier can be written", ()),
        ({"slot": None}, 'replication slot "s" does not exist', ()),
        ({"slot": replace(SLOT, lost="wal_removed")}, 'replication slot "s" is lost: wal_removed', ()),
        (
            {"flushed": 10},
            "the target is ahead of the publisher: it has 0/64, and the publisher is at 0/A",
            (),
        ),
        (
            {"received": 0, "last": 0},
            "the journal cannot be read from here, so what was received is not known",
            (),
        ),
    ],
)
def test_a_precondition_that_is_not_met_is_refused_with_a_hint(changes, message, details):
    work, _ = a_work(FakeServers(**changes))
    (refusal,) = Preconditions().check(work)
    assert (refusal.message, refusal.details) == (message, details)
    assert refusal.hint
    assert refusal.error().sqlstate == "55000"


def test_clean_preconditions_are_told():
    work, _ = a_work()
    assert Preconditions().check(work) == []
    assert Preconditions().do(work).text == "1 table is ready; `subscriber run` is process 7 on host h"


def test_writes_have_stopped_when_no_transaction_is_open_and_nothing_comes_between_two_barriers():
    servers = FakeServers(writers=[["process 5"], ["process 5"], []], writes_at_barriers=[2])
    work, _ = a_work(servers)
    Writes().do(work)
    assert servers.barriers == 4  # the second came after a transaction, so two more were written
    assert work.quiet_from == LSN(135)


def test_writes_that_do_not_stop_end_with_the_sessions_and_the_two_ways_on():
    work, servers = a_work(FakeServers(writers=[['process 5 (user "app")']]), timeout=10.0)
    with pytest.raises(UsageError) as caught:
        Writes().do(work)
    error = caught.value
    assert (error.sqlstate, error.message) == ("57014", "stopping the writes has not ended within 10 s")
    assert error.detail == 'It waits for: process 5 (user "app").'
    assert error.hint == "Put that right and run the same command again, or with a longer --timeout."
    assert servers.log == []


def test_the_fence_is_stored_before_it_is_set_and_waits_for_older_sessions():
    servers = FakeServers(setting="off", old_sessions=[[UnfencedSession(5, "process 5")], []])
    work, _ = a_work(servers, fence=True)
    Writes().do(work)
    stored: list[Any] = [one.options.get("fence") for one in servers.stored]
    assert stored[0] == {"database": "shop", "former": "off", "since": None}
    assert stored[1]["since"] == "2026-11-25 10:00:00+00"
    assert servers.log == ["fence"]


@pytest.mark.parametrize("lifted", [False, True])
def test_a_fence_that_somebody_has_lifted_holds_sessions_from_its_second_time_on(lifted):
    work, servers = a_work(fence=True)
    Writes().do(work)
    servers.moment = "2026-11-25 11:00:00+00"
    if lifted:
        servers.setting = None
        servers.fenced_since = servers.moment
    Writes().do(work)
    assert work.fence == {"database": "shop", "former": None, "since": servers.fenced_since}


def test_older_sessions_are_ended_only_if_that_is_asked():
    servers = FakeServers(old_sessions=[[UnfencedSession(5, "process 5")]])
    work, _ = a_work(servers, fence=True, timeout=5.0)
    with pytest.raises(UsageError) as caught:
        Writes().do(work)
    assert caught.value.detail == ("It waits for: process 5, which began before the fence; --terminate would end them.")
    assert str(caught.value.hint).endswith("or go back: subscriber cutover s --abandon, which lifts the fence, too.")
    assert servers.log == ["fence"]
    work, servers = a_work(
        FakeServers(old_sessions=[[UnfencedSession(5, "process 5")], []]), fence=True, terminate=True
    )
    Writes().do(work)
    assert servers.log == ["fence", "end [5]"]


def test_a_fence_that_would_not_hold_is_refused_with_the_statement():
    work, servers = a_work(FakeServers(obstacles=[("role x may write", "ALTER ROLE x …;")]), fence=True)
    (refusal,) = Writes().check(work)
    assert refusal.hint == "Run at the publisher: ALTER ROLE x …;"
    work, _ = a_work(servers)
    assert list(Writes().check(work)) == []


def test_without_a_fence_there_is_nothing_to_undo():
    work, servers = a_work()
    assert Writes().undo(work) is None
    assert fence_left(work) is None
    assert servers.log == []


def test_the_barrier_waits_until_the_target_has_it():
    work, _world = a_work(FakeServers(lag=5))
    work.quiet_from = LSN(100)
    assert Barrier().do(work).text == "the target has everything up to 0/6E"
    assert work.cutover.barrier == LSN(110)
    assert work.clock() > 0


def test_a_barrier_that_is_not_drained_in_time_is_an_error_with_both_positions():
    work, _world = a_work(FakeServers(lag=10_000), timeout=1.0)
    work.quiet_from = LSN(100)
    with pytest.raises(UsageError, match="has not ended within 1 s") as caught:
        Barrier().do(work)
    assert " to 0/6E" in str(caught.value.detail)


@pytest.mark.parametrize("step", [Barrier, Switch])
def test_a_transaction_that_comes_after_the_writes_had_stopped_is_refused(step):
    work, servers = a_work(FakeServers(writes_at_barriers=[1]))
    work.quiet_from = LSN(100)
    work.save(barrier=LSN(100))
    with pytest.raises(UsageError, match="received new writes after the application was stopped") as caught:
        step().do(work)
    assert "--fence" in str(caught.value.hint)
    assert servers.subscription.enabled


def test_the_switch_counts_the_rows_and_disables():
    work, servers = a_work()
    work.save(barrier=LSN(100))
    text = Switch().do(work).text
    assert text == 'the subscription is disabled at 0/6E, its slot "s" is kept'
    assert servers.stored[-1].state == "switched"
    assert servers.stored[-1].findings["rows"] == {"public.t": 3}
    assert Switch().undo(work) == StepOutcome("the subscription is enabled again")
    assert Switch().undo(work) is None
