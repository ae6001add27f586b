"""subscription.status_file: what status reads while a batch holds the target."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from subscriber.base.errors import TargetUnavailable
from subscriber.catalog.replaced_values import ReplacedCount
from subscriber.catalog.schema_changes import SchemaChange
from subscriber.catalog.worker_status import WorkerStatus
from subscriber.worker import subscription_status
from subscriber.worker.copy_progress import CopyFigures
from subscriber.worker.subscription_status import (
    CutoverStatus,
    FailoverStatus,
    HoldStatus,
    RelationStatus,
    RunnerStatus,
    SlotStatus,
    StatusFile,
    SubscriptionStatus,
    keeping_status_file,
    read_status_file,
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
    monkeypatch.setattr(subscription_status, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(subscription_status, "_HELD_SECONDS", 0.01)
    monkeypatch.setattr(subscription_status, "_REFRESH_SECONDS", 0.01)
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


# The keys of `status --json` ----------------------------------------------------------------------

COPY_KEYS = {"rows", "bytes", "estimated_rows", "estimated_bytes", "rows_per_second", "started_at"}
KEYS = {
    "name", "enabled", "state", "connection", "publications", "slot_name", "slot_active", "publisher_lsn", "confirmed_lsn",
    "received_lsn", "applied_lsn", "lag_bytes", "lag_seconds", "tables", "relations", "conflicts", "apply_errors", "last_error",
    "last_error_at", "schema_changes", "replaced_values", "history_diverged", "sync_errors", "last_error_resolved_at", "slot",
    "slot_missing", "runner", "hold", "as_of", "cutover", "worker", "sequences_behind", "missing_publications", "waits_for",
    "failover", "journal_bytes", "unknown", "publisher_version", "target_version", "version",
}  # fmt: skip
NESTED = {
    "slot": {"active", "confirmed_lsn", "wal_status", "retained_bytes", "safe_wal_bytes", "lost"},
    "runner": {
        "alive", "host", "process_id", "started_at", "heartbeat_at", "busy_since", "ended_at", "silent_seconds", "may_be_busy",
    },
    "hold": {"host", "process_id", "since", "state", "lsn"},
    "cutover": {
        "state", "step", "started_at", "switched_at", "barrier_lsn", "process", "fenced_database", "way_back", "options",
    },
    "worker": {"subid", "state", "since", "error", "attempts", "next_attempt", "server", "notices"},
    "failover": {"ready", "standbys", "problems"},
    "relations": {"schema", "name", "state", "lsn", "error", "error_at", "copy"},
    "schema_changes": {
        "changed_at", "relation", "remote_lsn", "statement", "reason", "difference", "resolved_at", "schema", "name",
    },
    "replaced_values": {"relation", "column", "key", "count", "first_lsn", "last_lsn"},
}  # fmt: skip


def test_users_find_the_documented_keys_in_the_json_of_a_status():
    """Monitoring reads them. A key may be added, and none may go or get another name."""
    full = replace(
        STATUS,
        cutover=CutoverStatus("running", "writes", "2026-11-21T10:00:00.000+00:00", None, None, None, None, None),
        replaced_values=(ReplacedCount("public.t", "c", 2, ("a",), "0/100", "0/200"),),
    )
    written = json.loads(json.dumps(asdict(full)))
    assert written.keys() >= KEYS
    for name, keys in NESTED.items():
        (found, *_) = written[name] if isinstance(written[name], list) else [written[name]]
        assert found.keys() >= keys, name
    assert written["relations"][0]["copy"].keys() == COPY_KEYS
