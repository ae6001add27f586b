"""What refuses a hold of the apply, and what shows that it was lost; no run and no publisher."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from subscriber import catalog
from subscriber.catalog import ApplyHold, HoldState, RelationState, Runner, Subscription
from subscriber.commands.hold_apply import HeldApply, hold_apply
from subscriber.errors import ApplyNotHeld, PublisherUnavailable, UsageError
from subscriber.lsn import LSN
from subscriber.publisher.snapshot import Snapshot
from subscriber.settings import Settings
from subscriber.targets import Target, open_target
from tests.subscriptions import NOWHERE, create_subscription, set_state

LSN_OF_HOLD = LSN(0x100)
HOLD = ApplyHold(1, "a" * 32, "db1", 4711, "noon", "noon", HoldState.HELD, LSN_OF_HOLD, LSN_OF_HOLD)


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    """A target with subscription s of the tables a and b, of which a is ready."""
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as opened:
        catalog.ensure_catalog(opened.engine)
        create_subscription(opened, conninfo=NOWHERE)
        set_state(opened, "a", RelationState.READY)
        set_state(opened, "b", RelationState.SYNCDONE, 0x80)
        yield opened


def store(target: Target, hold: ApplyHold) -> None:
    with target.begin() as connection:
        catalog.insert_hold(connection, hold)


def row(target: Target) -> ApplyHold | None:
    with target.engine.connect() as connection:
        return catalog.find_hold(connection, 1)


def subscription(target: Target) -> Subscription:
    with target.engine.connect() as connection:
        return catalog.get_subscription(connection, "s")


# HeldApply ----------------------------------------------------------------------------------------


@pytest.fixture
def held(target) -> HeldApply:
    return HeldApply(LSN_OF_HOLD, Snapshot("x", LSN_OF_HOLD), frozenset({("public", "a")}), target, HOLD, "s")


def test_what_was_read_is_proven_while_the_row_is_there(target, held):
    store(target, HOLD)
    set_state(target, "b", RelationState.INIT)  # it was not part of what is held
    held.check()


@pytest.mark.parametrize(
    "hold",
    [None, replace(HOLD, holder="b" * 32), replace(HOLD, state=HoldState.PAUSED, reached=None)],
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
        catalog.set_enabled(connection, "s", enabled=False)
    with pytest.raises(UsageError, match="because the subscription is disabled") as caught:
        hold_it(target)
    assert caught.value.hint == "ALTER SUBSCRIPTION s ENABLE;"


def test_another_holder_keeps_its_hold(target):
    store(target, HOLD)
    with pytest.raises(UsageError, match="is held by another command") as caught:
        hold_it(target)
    assert caught.value.sqlstate == "55P03"
    assert caught.value.detail == "It has been held since noon by process 4711 on host db1."
    assert row(target) == HOLD


# Without a run, but as if one were alive ----------------------------------------------------------


@pytest.fixture
def alive(target) -> Iterator[Target]:
    now = datetime.now(UTC).isoformat()
    with target.running():
        with target.begin() as connection:
            catalog.write_runner(connection, Runner("db1", 1, now, now))
        yield target


def test_the_time_limit_ends_the_wait_and_nothing_is_left(alive):
    with pytest.raises(ApplyNotHeld, match=r"could not be held within 0\.2 s") as caught:
        hold_it(alive, 0.2)
    assert caught.value.sqlstate == "57014"
    assert caught.value.detail == "The subscription has applied up to 0/32."
    assert row(alive) is None


def test_a_publisher_that_is_away_is_its_own_error_and_nothing_is_left(alive, monkeypatch):
    insert = catalog.insert_hold

    def answered(connection, hold):
        insert(connection, hold)
        catalog.note_paused(connection, hold)

    monkeypatch.setattr(catalog, "insert_hold", answered)
    with pytest.raises(PublisherUnavailable):
        hold_it(alive)
    assert row(alive) is None


def test_an_interrupt_leaves_nothing_behind(alive, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("subscriber.commands.holding.Holding.wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hold_it(alive)
    assert row(alive) is None
