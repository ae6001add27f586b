"""subscription.status_file: what status reads while a batch holds the target."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from subscriber.catalog import SchemaChange, WorkerStatus
from subscriber.errors import TargetUnavailable
from subscriber.runtime import status_file
from subscriber.runtime.status_file import StatusFile, keeping_status_file, read_status_file
from subscriber.runtime.subscription_status import (
    CopyFigures,
    FailoverStatus,
    HoldStatus,
    RelationStatus,
    RunnerStatus,
    SlotStatus,
    SubscriptionStatus,
)
from tests.waits import wait_until

COPY = CopyFigures(
    rows=1,
    bytes=2,
    estimated_rows=3,
    estimated_bytes=4,
    rows_per_second=5.0,
    started_at="2026-11-21T10:00:00.000+00:00",
)
STATUS = SubscriptionStatus(
    name="s",
    enabled=True,
    state="retrying",
    connection="dbname=shop password=***",
    publications=("p", "q"),
    slot_name="s",
    slot_active=None,
    publisher_lsn=None,
    confirmed_lsn=None,
    received_lsn="0/200",
    applied_lsn="0/100",
    lag_bytes=None,
    lag_seconds=1.5,
    tables={"d": 1, "r": 1},
    relations=(
        RelationStatus("public", "a", "d", None, "ERROR:  away", "2026-11-21T10:00:01.000+00:00", COPY),
        RelationStatus("public", "b", "r", "0/100", None, None, None),
    ),
    conflicts={"insert_exists": 2},
    apply_errors=2,
    last_error="ERROR:  duplicate key",
    worker=WorkerStatus(1, "retrying", "2026-11-21T10:00:01.000+00:00", "ERROR:  duplicate key", 2, None),
    last_error_at="2026-11-21T10:00:01.000+00:00",
    slot=SlotStatus(
        active=True,
        confirmed_lsn="0/100",
        wal_status="reserved",
        retained_bytes=1,
        safe_wal_bytes=None,
        lost=None,
    ),
    runner=RunnerStatus(
        alive=True,
        host="h",
        process_id=1,
        started_at="2026-11-21T10:00:00.000+00:00",
        heartbeat_at="2026-11-21T10:00:01.000+00:00",
        busy_since=None,
        ended_at=None,
    ),
    failover=FailoverStatus(False, ("b:5432",), ("b:5432: hot_standby_feedback is off",)),
    hold=HoldStatus("h", 2, "2026-11-21T10:00:00.000+00:00", "held", "0/100"),
    schema_changes=(
        SchemaChange("2026-11-21T10:00:00.000+00:00", "public.t", "0/100", None, "Why.", "How.", None, "public", "t"),
    ),
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(status_file, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(status_file, "_HELD_SECONDS", 0.01)
    monkeypatch.setattr(status_file, "_REFRESH_SECONDS", 0.01)
    return tmp_path / "target.duckdb.subscriber-status"


def test_the_file_exists_while_a_batch_is_in_progress_and_contains_the_status(path):
    busy: list[float | None] = [None]
    reads: list[int] = []

    def read() -> list[SubscriptionStatus]:
        reads.append(1)
        return [STATUS]

    with keeping_status_file(path, read, lambda: busy[0]):
        assert read_status_file(path) is None
        busy[0] = time.monotonic()
        wait_until(path.exists)
        assert path.stat().st_mode & 0o777 == 0o600
        found = read_status_file(path)
        assert found is not None
        (status,) = found.statuses
        assert status.as_of == found.as_of
        assert status != STATUS
        assert replace(status, as_of=None) == STATUS
        wait_until(lambda: len(reads) > 3)  # it is written again while the batch goes on
        busy[0] = None
        wait_until(lambda: not path.exists())
        busy[0] = time.monotonic()
        wait_until(path.exists)
    assert not path.exists()
    assert list(path.parent.iterdir()) == []


def test_the_file_keeps_the_last_status_while_the_target_cannot_be_read(path):
    answers = iter([[STATUS]])

    def read() -> list[SubscriptionStatus]:
        try:
            return next(answers)
        except StopIteration:
            raise TargetUnavailable("away") from None

    with keeping_status_file(path, read, lambda: 0.0):
        wait_until(path.exists)
        time.sleep(0.05)
        assert read_status_file(path) is not None


def test_the_file_of_a_killed_run_is_ignored(path):
    path.write_text(json.dumps({"pid": _pid_of_nobody(), "as_of": "2026-11-21T10:00:00+00:00", "subscriptions": []}))
    assert read_status_file(path) is None
    with keeping_status_file(path, list, lambda: None):
        assert not path.exists()


def _pid_of_nobody() -> int:
    with subprocess.Popen(["true"]) as child:
        pass
    return child.pid


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"pid": 1, "as_of": "x", "subscriptions": [{}]}'])
def test_a_file_without_a_status_is_ignored(path, text):
    path.write_text(text)
    assert read_status_file(path) is None


def test_an_old_file_is_not_fresh(path):
    """The run may have ended its batch since, and wait for a publisher that does not answer."""
    old = StatusFile([STATUS], "2026-11-21T10:00:00+00:00")
    assert not old.is_fresh
    with keeping_status_file(path, lambda: [STATUS], lambda: 0.0):
        wait_until(path.exists)
        found = read_status_file(path)
        assert found is not None
        assert found.is_fresh


def test_a_target_that_others_can_read_has_no_status_file(path):
    with keeping_status_file(None, lambda: pytest.fail("nobody asks"), lambda: 0.0):
        assert read_status_file(None) is None
