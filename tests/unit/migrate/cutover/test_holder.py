"""Only one command at a time carries out a cutover."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import ProgressConflict, TargetUnavailable, UsageError
from subscriber.catalog import leases
from subscriber.catalog.cutovers import leave_cutover, write_cutover
from subscriber.catalog.leases import LeaseKind, find_lease
from subscriber.migrate.cutover import holder
from subscriber.migrate.cutover.holder import carrying_out, look_at
from subscriber.targets import open_target
from tests.subscriptions import create_subscription
from tests.waits import wait_until


@pytest.fixture
def target(tmp_path):
    from subscriber.catalog.catalog_upgrade import ensure_catalog

    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        ensure_catalog(opened.engine)
        create_subscription(opened)
        yield opened


def test_two_cutovers_of_one_subscription_at_once_are_refused(target):
    with carrying_out(target, "s", 1), pytest.raises(UsageError) as caught, carrying_out(target, "s", 1):
        pass
    assert caught.value.sqlstate == "55P03"
    assert "another command carries out a cutover" in caught.value.message
    assert "It is process " in str(caught.value.detail)


def test_an_interrupted_command_gives_the_cutover_back(target):
    with pytest.raises(KeyboardInterrupt), carrying_out(target, "s", 1) as first:
        with target.begin() as connection:
            write_cutover(connection, replace(first, options={"fence": {"database": "shop"}}), "s")
        raise KeyboardInterrupt
    kept = look_at(target, 1)
    assert kept is not None
    assert not kept.is_held
    with carrying_out(target, "s", 1) as second:
        assert second.started_at == first.started_at
        assert second.lease != first.lease


def test_a_command_that_has_changed_nothing_leaves_no_row(target):
    with pytest.raises(KeyboardInterrupt), carrying_out(target, "s", 1):
        raise KeyboardInterrupt
    assert look_at(target, 1) is None


@pytest.mark.parametrize("error", [TargetUnavailable("busy"), ProgressConflict("the same row", sqlstate="40001")])
def test_a_cutover_is_given_back_although_the_target_is_busy_for_a_moment(target, monkeypatch, error):
    errors = [error]

    def leave(connection, cutover):
        if errors:
            raise errors.pop()
        leave_cutover(connection, cutover)

    monkeypatch.setattr(holder, "leave_cutover", leave)
    with carrying_out(target, "s", 1):
        pass
    assert errors == []
    assert look_at(target, 1) is None


def test_the_lease_is_renewed_while_it_is_carried_out(target, monkeypatch):
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.01)
    with carrying_out(target, "s", 1) as cutover:

        def is_renewed():
            with target.engine.connect() as connection:
                found = find_lease(connection, LeaseKind.CUTOVER, 1)
            return found is not None and cutover.lease is not None and found.heartbeat > cutover.lease.heartbeat

        wait_until(is_renewed)
