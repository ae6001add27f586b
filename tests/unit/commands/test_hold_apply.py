"""What refuses a hold of the apply, and what shows that it was lost; no run and no publisher."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from subscriber.base import clock
from subscriber.base.errors import ApplyNotHeld, PublisherUnavailable, UsageError
from subscriber.base.lsn import LSN
from subscriber.base.settings import Settings
from subscriber.catalog.apply_pauses import PauseState, acknowledge_pause
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.leases import Lease, LeaseKind, claim, find_lease, new_lease, write_run
from subscriber.catalog.subscriptions import Subscription, get_subscription, set_enabled
from subscriber.catalog.table_states import RelationState
from subscriber.commands.hold_apply import RequestedPause, _Failing, hold_apply
from subscriber.publisher.snapshot import Snapshot
from subscriber.targets import Target, open_target
from tests.leases import pause_lease, store_lease
from tests.subscriptions import NOWHERE, create_subscription, set_state

LSN_OF_HOLD = LSN(0x100)
HOLD = pause_lease(1, PauseState.HELD, bound=LSN_OF_HOLD, reached=LSN_OF_HOLD)


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    """A target with subscription s of the tables a and b, of which a is ready."""
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as opened:
        ensure_catalog(opened.engine)
        create_subscription(opened, conninfo=NOWHERE)
        set_state(opened, "a", RelationState.READY)
        set_state(opened, "b", RelationState.SYNCDONE, 0x80)
        yield opened


def store(target: Target, hold: Lease) -> None:
    with target.begin() as connection:
        store_lease(connection, hold)


def row(target: Target) -> Lease | None:
    with target.engine.connect() as connection:
        return find_lease(connection, LeaseKind.PAUSE, 1)


def subscription(target: Target) -> Subscription:
    with target.engine.connect() as connection:
        return get_subscription(connection, "s")


# RequestedPause ----------------------------------------------------------------------------------


@pytest.fixture
def held(target) -> RequestedPause:
    return RequestedPause(LSN_OF_HOLD, Snapshot("x", LSN_OF_HOLD), frozenset({("public", "a")}), target, HOLD, "s")


def test_what_was_read_is_proven_while_the_row_is_there(target, held):
    store(target, HOLD)
    set_state(target, "b", RelationState.INIT)  # it was not part of what is held
    held.check()


@pytest.mark.parametrize(
    "hold",
    [None, replace(HOLD, holder="b" * 32), replace(HOLD, state=PauseState.PAUSED, reached=None)],
    ids=["gone", "of another holder", "not reached"],
)
def test_a_hold_that_was_lost_proves_nothing(target, held, hold):
    if hold is not None:
        store(target, hold)
    with pytest.raises(ApplyNotHeld, match=r'the apply of subscription "s" is no longer held at 0/100') as caught:
        held.check()
    assert (caught.value.sqlstate, caught.value.hint) == (
        "55000",
        "What was read of the target may be newer. Repeat the command.",
    )


def test_a_table_that_is_copied_again_meanwhile_is_not_proven(target, held):
    store(target, HOLD)
    set_state(target, "a", RelationState.INIT)
    with pytest.raises(ApplyNotHeld, match=r'table "public\.a" of subscription "s" was taken out of state r') as caught:
        held.check()
    assert caught.value.relation == "public.a"


# Without a run, but as if one were alive ----------------------------------------------------------


@pytest.fixture
def alive(target) -> Iterator[Target]:
    with target.running():
        with target.begin() as connection:
            write_run(connection, new_lease(LeaseKind.RUN))
        yield target


# What refuses a hold ------------------------------------------------------------------------------


def hold_it(target: Target, seconds: float = 5.0) -> None:
    with hold_apply(target, subscription(target), Settings(journal=""), seconds=seconds):
        raise AssertionError("nobody holds it")


def test_a_run_must_be_running(target):
    with pytest.raises(UsageError, match="no `subscriber run` is running for this target") as caught:
        hold_it(target)
    assert caught.value.sqlstate == "55000"
    assert caught.value.hint == f"Start: subscriber run --target sqlite:///{target.file}"
    assert row(target) is None


def test_a_disabled_subscription_cannot_be_held(target):
    with target.begin() as connection:
        set_enabled(connection, "s", enabled=False)
    with pytest.raises(UsageError, match="because the subscription is disabled") as caught:
        hold_it(target)
    assert caught.value.hint == "ALTER SUBSCRIPTION s ENABLE;"


def test_another_holder_keeps_its_hold(alive):
    target = alive
    held = replace(HOLD, heartbeat=clock.now())
    store(target, held)
    with pytest.raises(UsageError, match="is held by another command") as caught:
        hold_it(target)
    assert caught.value.sqlstate == "55P03"
    assert caught.value.detail == f"It has been held since {HOLD.since} by process 4711 on host db1."
    assert row(target) == held


def test_the_time_limit_ends_the_wait_and_nothing_is_left(alive):
    with pytest.raises(ApplyNotHeld, match=r'could not pause subscription "s" within 0\.2 s') as caught:
        hold_it(alive, 0.2)
    assert caught.value.sqlstate == "57014"
    assert caught.value.detail == "The subscription has applied up to 0/32."
    assert row(alive) is None


def test_a_publisher_that_is_away_is_its_own_error_and_nothing_is_left(alive, monkeypatch):
    def answered(connection, lease):
        assert claim(connection, lease) is None
        acknowledge_pause(connection, lease)

    monkeypatch.setattr("subscriber.commands.hold_apply.claim", answered)
    with pytest.raises(PublisherUnavailable):
        hold_it(alive)
    assert row(alive) is None


def test_an_interrupt_leaves_nothing_behind(alive, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("subscriber.commands.hold_apply.PauseRequest.wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hold_it(alive)
    assert row(alive) is None


# When it is useless to wait ----------------------------------------------------------------------


def failed(number: int, **more: Any) -> dict[str, Any]:
    return {"last_error": "ERROR:  no", "last_error_at": f"at {number}", "last_error_worker": "apply", **more}


def test_an_error_that_occurs_again_and_again_counts():
    failing = _Failing()
    found = [failing.observe(failed(number), "paused", float(number)) for number in range(5)]
    assert found == [None, None, None, "ERROR:  no", "ERROR:  no"], "the first one is from before the wait"


@pytest.mark.parametrize(
    "statistics",
    [
        {},
        failed(1, last_error_worker="sync"),
        failed(1, last_error_resolved_at="later"),
    ],
    ids=["no error", "of a copy", "resolved"],
)
def test_other_errors_do_not_count(statistics):
    failing = _Failing()
    assert [failing.observe(statistics, "paused", now) for now in (0.0, 1000.0)] == [None, None]


def test_an_old_error_counts_when_nothing_happens_for_long():
    """A worker that has stopped for good does not fail again."""
    failing = _Failing()
    assert [failing.observe(failed(1), "requested", now) for now in (0.0, 59.0, 61.0)] == [None, None, "ERROR:  no"]


def test_an_old_error_does_not_count_while_the_subscription_gets_further():
    failing = _Failing()
    assert [failing.observe(failed(1), applied, 30.0 * applied) for applied in range(10)] == [None] * 10
