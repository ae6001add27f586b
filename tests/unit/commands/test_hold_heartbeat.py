"""A holder shows that it is alive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber import catalog
from subscriber.catalog import ApplyHold
from subscriber.commands import hold_heartbeat
from subscriber.commands.hold_heartbeat import renewing, trying
from subscriber.errors import TargetError, TargetUnavailable, UsageError
from subscriber.targets import Target, open_target
from tests.waits import wait_until

HOLD = ApplyHold(1, "a", "db1", 4711, "since", "first")


@pytest.fixture
def target(tmp_path, monkeypatch) -> Iterator[Target]:
    monkeypatch.setattr(hold_heartbeat, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(hold_heartbeat, "_AGAIN_SECONDS", 0.01)
    with open_target(f"sqlite:///{tmp_path / 't.db'}") as opened:
        catalog.ensure_catalog(opened.engine)
        with opened.begin() as connection:
            catalog.insert_hold(connection, HOLD)
        yield opened


def heartbeat(target: Target) -> str:
    with target.engine.connect() as connection:
        found = catalog.find_hold(connection, 1)
    assert found is not None
    return found.heartbeat


def test_the_heartbeat_changes_while_the_hold_lasts(target):
    with renewing(target, HOLD):
        seen = {heartbeat(target)}

        def changed() -> bool:
            seen.add(heartbeat(target))
            return len(seen) > 3

        wait_until(changed)


def test_a_heartbeat_that_cannot_be_written_is_tried_again(target, monkeypatch):
    begin, attempts = target.begin, []

    def busy():
        attempts.append(1)
        if len(attempts) < 4:
            raise TargetUnavailable("the file is busy")
        return begin()

    monkeypatch.setattr(target, "begin", busy)
    with renewing(target, HOLD):
        wait_until(lambda: len(attempts) > 5)
    assert heartbeat(target) != "first"


def test_a_hold_that_was_removed_is_not_made_again(target):
    with target.begin() as connection:
        catalog.delete_hold(connection, HOLD)
    with renewing(target, HOLD):
        pass
    with target.engine.connect() as connection:
        assert catalog.find_hold(connection, 1) is None


@pytest.mark.parametrize(
    "error", [TargetUnavailable("busy"), TargetError("conflict", sqlstate="40001")], ids=["busy", "serialization"]
)
def test_a_step_is_tried_again_while_the_target_is_busy(error, monkeypatch):
    monkeypatch.setattr(hold_heartbeat, "_AGAIN_SECONDS", 0.0)
    failures = iter([error, error])

    def step() -> str:
        for failure in failures:
            raise failure
        return "done"

    assert trying(step) == "done"


def test_a_step_that_is_refused_is_not_tried_again(monkeypatch):
    attempts = []

    def step() -> None:
        attempts.append(1)
        raise UsageError("no")

    with pytest.raises(UsageError):
        trying(step)
    assert len(attempts) == 1


def test_a_target_that_stays_away_is_an_error(monkeypatch):
    monkeypatch.setattr(hold_heartbeat, "_AGAIN_SECONDS", 0.0)

    def step() -> None:
        raise TargetUnavailable("away")

    with pytest.raises(TargetUnavailable):
        trying(step)
