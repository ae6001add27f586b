"""``subscriber status``: tables that are not ready are shown with what is known of their copy."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from subscriber.base.errors import TargetUnavailable
from subscriber.catalog.schema_changes import SchemaChange
from subscriber.catalog.worker_status import WorkerStatus
from subscriber.cli.status import command, schema_change_parts
from subscriber.worker.copy_progress import CopyFigures
from subscriber.worker.subscription_status import (
    FailoverStatus,
    HoldStatus,
    RelationStatus,
    RunnerStatus,
    SlotStatus,
    StatusFile,
    SubscriptionStatus,
)

STATUS = SubscriptionStatus(
    name="shop",
    enabled=True,
    state="streaming",
    connection="dbname=shop",
    publications=("shop",),
    slot_name="shop",
    slot_active=True,
    publisher_lsn="0/200",
    confirmed_lsn="0/200",
    received_lsn="0/200",
    applied_lsn="0/200",
    lag_bytes=0,
    lag_seconds=0.0,
    tables={"d": 2, "i": 1, "r": 1},
    relations=(
        RelationStatus(
            "public",
            "big",
            "d",
            None,
            None,
            None,
            CopyFigures(1_200, 48_000, 30_000, 1_500_000, 123_456.7, "2026-11-21T10:00:00.000+00:00"),
        ),
        RelationStatus(
            "public",
            "broken",
            "d",
            None,
            "ERROR:  duplicate key value violates unique constraint\nDETAIL:  Key (id) already exists.",
            "2026-11-21T10:00:01.000+00:00",
            None,
        ),
        RelationStatus("s", "next", "i", None, None, None, None),
        RelationStatus("public", "small", "r", "0/100", None, None, None),
    ),
    conflicts={},
    apply_errors=0,
    last_error=None,
    last_error_at=None,
)


@pytest.fixture
def printed(monkeypatch, tmp_path):
    """What the verb prints of statuses."""

    def run(*statuses, arguments=(), code=0):
        monkeypatch.setattr("subscriber.cli.status.subscription_statuses", lambda *_, **__: list(statuses))
        answer = CliRunner().invoke(
            command, ["--target", f"sqlite:///{tmp_path}/t.db", *arguments], catch_exceptions=False
        )
        assert answer.exit_code == code
        return answer.output

    return run


@pytest.mark.parametrize(
    ("changed", "limits", "code", "line"),
    [
        ({}, "lag=60s,errors=5", 0, "OK: 1 subscription, greatest lag 0.0 s"),
        ({"lag_seconds": 61.0}, "lag=60s,errors=1", 2, "CRITICAL: shop: the lag is 61.0 s, 60 s are allowed"),
        ({}, "errors=0", 2, "CRITICAL: shop: 1 failed attempts, 0 are allowed"),
        ({"state": "not running"}, "lag=60s", 2, "CRITICAL: shop is not running"),
        ({"lag_seconds": None, "unknown": ("the publisher: away",)}, "lag=60s,errors=1", 3,
         "UNKNOWN: shop: its lag is not known (the publisher: away)"),
        ({"slot_missing": True}, "errors=5", 2, "CRITICAL: shop: its slot is lost"),
    ],
)  # fmt: skip
def test_a_check_has_the_exit_code_of_a_monitoring_plugin(printed, changed, limits, code, line):
    assert printed(replace(STATUS, **changed), arguments=("--check", limits), code=code) == f"{line}\n"


def test_a_line_says_why_a_value_is_not_known(printed):
    away = replace(STATUS, lag_seconds=None, unknown=("the publisher: could not connect",))
    assert "not known of shop: the publisher: could not connect\n" in printed(away)


def test_every_table_that_is_not_ready_has_a_row_with_its_copys_figures_or_its_error(printed):
    """D1: i is waiting, d is being copied or has failed; r is not shown"""
    _, pending = printed(STATUS).split("Tables that are not ready\n")
    pending, _, _ = pending.partition("\n\n")
    heading, _, big, broken, waiting, count = [
        [cell.strip() for cell in line.split("|")] for line in pending.splitlines()
    ]
    assert heading == ["subscription", "table", "state", "rows", "bytes", "rate", "since", "error"]
    assert big == [
        "shop", "public.big", "copying", "1,200 of 30,000", "48.0 kB of 1.5 MB", "123,457 rows/s",
        "2026-11-21T10:00:00.000+00:00", "",
    ]  # fmt: skip
    assert broken == [
        "shop", "public.broken", "copying", "", "", "", "2026-11-21T10:00:01.000+00:00",
        "ERROR:  duplicate key value violates unique constraint",
    ]  # fmt: skip
    assert waiting == ["shop", "s.next", "init", "", "", "", "", ""]
    assert count == ["(3 rows)"]


def test_a_publisher_that_has_less_than_was_received_is_named(monkeypatch, tmp_path):
    """The lag would be 0 if it were clamped, and nobody would look."""
    diverged = replace(STATUS, publisher_lsn="0/1F0", lag_bytes=None, history_diverged=True)
    monkeypatch.setattr("subscriber.cli.status.subscription_statuses", lambda *_, **__: [diverged])
    shown = CliRunner().invoke(command, ["--target", f"sqlite:///{tmp_path / 't.db'}"])
    assert (
        "WARNING:  the publisher of shop has WAL only up to 0/1F0, but changes up to 0/200 were received"
        in shown.output
    )
    assert "? B" in shown.output


RUNNER = RunnerStatus(
    alive=True,
    host="db1",
    process_id=4711,
    started_at="2026-11-21T10:00:00+00:00",
    heartbeat_at="2026-11-21T10:20:00+00:00",
    busy_since=None,
    ended_at=None,
)


@pytest.mark.parametrize(
    ("runner", "line"),
    [
        (None, "`subscriber run` has not been started for this target"),
        (
            RUNNER,
            (
                "`subscriber run` has been running since 2026-11-21T10:00:00+00:00 on host db1, process 4711, last heartbeat at"
                " 2026-11-21T10:20:00+00:00"
            ),
        ),
        (replace(RUNNER, busy_since="noon"), ", busy with a batch or a copy since noon"),
        (
            replace(RUNNER, alive=False),
            (
                "WARNING:  `subscriber run` is not running; the last one (on host db1, process 4711) did not end normally, and wrote its"
                " last heartbeat at 2026-11-21T10:20:00+00:00"
            ),
        ),
        (
            replace(RUNNER, alive=False, ended_at="2026-11-21T10:30:00+00:00"),
            "`subscriber run` is not running; the last one ended at 2026-11-21T10:30:00+00:00 (on host db1, process 4711)",
        ),
    ],
)
def test_the_page_shows_whether_a_run_is_alive(printed, runner, line):
    """With nobody running it used to say a lag of 0.0 s, and nothing else."""
    assert line in printed(replace(STATUS, runner=runner))


@pytest.mark.parametrize(
    ("may_be_busy", "why"),
    [(False, "It hangs, or it cannot write to the target."), (True, "It is busy with a long batch or a long copy")],
)
def test_a_run_that_holds_its_lock_without_a_heartbeat_is_a_warning(printed, may_be_busy, why):
    silent = replace(RUNNER, silent_seconds=600.0, may_be_busy=may_be_busy)
    text = printed(replace(STATUS, runner=silent))
    assert "WARNING:  `subscriber run` is there, but wrote its last heartbeat 10 minutes ago" in text
    assert f"DETAIL:  {why}" in text
    assert "process 4711 on host db1" in text
    assert "WARNING" not in printed(replace(STATUS, runner=RUNNER))


def test_the_servers_that_are_streamed_from_are_named(printed):
    worker = WorkerStatus(1, "streaming", "noon", server='host "db1", port 5432, PostgreSQL 18.4', notices=3)
    streaming = replace(STATUS, state="streaming", worker=worker)
    other = replace(streaming, name="crm", worker=replace(worker, notices=0))
    assert 'streaming from host "db1", port 5432, PostgreSQL 18.4: shop (3 notices in the log), crm\n' in printed(
        streaming, other
    )
    assert "streaming from" not in printed(replace(streaming, state="not running"))


def test_a_publication_that_is_missing_is_a_warning_with_both_ways_on(printed):
    text = printed(replace(STATUS, missing_publications=("Odd",)))
    assert 'WARNING:  publication "Odd" of shop does not exist at the publisher' in text
    assert 'ALTER SUBSCRIPTION shop DROP PUBLICATION "Odd";' in text


def test_what_the_walsender_waits_for_is_a_warning(printed):
    text = printed(replace(STATUS, waits_for=("the standby of replication slot sb",)))
    assert (
        "WARNING:  the publisher sends shop nothing: its walsender waits for the standby of replication slot sb" in text
    )


@pytest.mark.parametrize(
    ("hold", "line"),
    [
        (
            HoldStatus("db1", 4711, "noon", "held", "0/200"),
            "the apply of shop is held at 0/200 by process 4711 on host db1, since noon",
        ),
        (
            HoldStatus("db1", 4711, "noon", "paused", "0/200"),
            "the apply of shop is paused until it is at 0/200 by process 4711",
        ),
        (HoldStatus("db1", 4711, "noon", "requested", None), "the apply of shop is to be held by process 4711"),
    ],
)
def test_a_command_that_holds_the_apply_is_shown(printed, hold, line):
    assert line in printed(replace(STATUS, hold=hold))
    assert "the apply of" not in printed(STATUS)


SLOT = SlotStatus(False, "0/200", "reserved", 123_456_789, 2_000_000, None)


def test_the_wal_that_the_publisher_keeps_for_a_slot_is_shown(printed):
    _, slots = printed(replace(STATUS, slot=SLOT, journal_bytes=4096)).split("Slots at the publisher\n")
    cells = [cell.strip() for cell in slots.splitlines()[2].split("|")]
    assert cells == ["shop", "shop", "inactive", "0/200", "reserved", "123.5 MB", "2.0 MB", "4.1 kB"]


@pytest.mark.parametrize(
    ("slot", "missing", "said"),
    [
        (replace(SLOT, wal_status="lost", lost="wal_removed"), False, 'slot "shop" of shop is lost: wal_removed'),
        (replace(SLOT, wal_status="unreserved"), False, 'slot "shop" of shop is about to be lost'),
        (None, True, 'replication slot "shop" of shop does not exist at the publisher'),
    ],
)
def test_a_lost_slot_is_shown_as_lost_and_not_as_inactive(printed, slot, missing, said):
    text = printed(replace(STATUS, slot=slot, slot_missing=missing))
    assert f"WARNING:  replication {said}".replace("replication replication", "replication") in text
    assert "\nHINT:  " in text
    assert "WARNING" not in printed(replace(STATUS, slot=SLOT))


def test_errors_of_copies_are_counted_and_a_resolved_error_is_marked(printed):
    failed = replace(STATUS, sync_errors=12, last_error="ERROR:  away", last_error_at="noon")
    assert "| 12 copy" in printed(failed)
    assert "| 3 apply, 12 copy" in printed(replace(failed, apply_errors=3))
    assert "last error of shop (noon, not resolved yet):\nERROR:  away" in printed(failed)
    assert "(noon, resolved at one):" in printed(replace(failed, last_error_resolved_at="one"))


def test_the_page_fits_into_120_columns(printed):
    names = replace(
        STATUS, name="orders_eu", slot_name="orders_eu", slot=SLOT, lag_seconds=1234.5, lag_bytes=123_456_789
    )
    ready = replace(
        names,
        relations=(),
        tables={"d": 2, "r": 69},
        received_lsn="AB/12345678",
        applied_lsn="AB/12345678",
        apply_errors=17,
    )
    assert max(map(len, printed(ready).splitlines())) <= 120


def test_with_every_table_ready_only_the_table_of_subscriptions_is_shown(printed):
    ready = replace(STATUS, relations=STATUS.relations[-1:], tables={"r": 1})
    assert "not ready" not in printed(ready)


def test_conflict_resolvers_are_shown(printed):
    chosen = {"insert_exists": "keep_local", "delete_missing": "error"}
    page = printed(replace(STATUS, conflict_resolvers=chosen))
    assert "conflict resolvers of shop: insert_exists = keep_local, delete_missing = error" in page.splitlines()
    assert "conflict resolvers" not in printed(STATUS)


def test_json_has_every_table_with_the_same_figures(printed):
    (status,) = json.loads(printed(STATUS, arguments=["--json"]))
    big, broken, _, small = status["relations"]
    assert (big["schema"], big["name"], big["state"]) == ("public", "big", "d")
    assert {**big["copy"], "started_at": None} == {
        "rows": 1_200,
        "bytes": 48_000,
        "estimated_rows": 30_000,
        "estimated_bytes": 1_500_000,
        "rows_per_second": 123_456.7,
        "started_at": None,
    }
    assert (broken["copy"], broken["error_at"]) == (None, "2026-11-21T10:00:01.000+00:00")
    assert broken["error"].startswith("ERROR:  duplicate key")
    assert (small["lsn"], small["error"]) == ("0/100", None)


def test_the_status_file_is_shown_while_a_batch_holds_the_target(monkeypatch, tmp_path):
    """In --json it stays a list of subscriptions, each of which says as of when it is."""
    as_of = datetime.now(UTC).isoformat()
    left = StatusFile([replace(STATUS, as_of=as_of)], as_of)
    monkeypatch.setattr("subscriber.worker.subscription_status.read_status_file", lambda _path: left)
    monkeypatch.setattr("subscriber.cli.status.subscription_statuses", lambda *_, **__: pytest.fail("it would wait"))
    target = ["--target", f"sqlite:///{tmp_path}/t.db"]
    text = CliRunner().invoke(command, target, catch_exceptions=False).output
    assert text.startswith(f"as of {as_of}, while a batch or a copy of `subscriber run` locks the target")
    (status,) = json.loads(CliRunner().invoke(command, [*target, "--json"], catch_exceptions=False).output)
    assert (status["name"], status["as_of"]) == ("shop", as_of)


def test_an_old_status_file_is_shown_only_if_the_target_cannot_be_read(monkeypatch, tmp_path):
    left = StatusFile([replace(STATUS, name="old")], "2026-01-01T10:00:00+00:00")
    monkeypatch.setattr("subscriber.worker.subscription_status.read_status_file", lambda _path: left)
    target = ["--target", f"sqlite:///{tmp_path}/t.db"]
    monkeypatch.setattr("subscriber.cli.status.subscription_statuses", lambda *_, **__: [STATUS])
    assert "old" not in CliRunner().invoke(command, target, catch_exceptions=False).output

    def held(*_: object, **__: object) -> None:
        raise TargetUnavailable("another process has it open")

    monkeypatch.setattr("subscriber.cli.status.subscription_statuses", held)
    assert "as of 2026-01-01" in CliRunner().invoke(command, target, catch_exceptions=False).output


def test_sequences_that_are_behind_are_one_line_with_the_command(printed):
    behind = replace(STATUS, sequences_behind=("public.orders.id", "tickets"))
    assert printed(behind).endswith(
        'NOTICE:  in the target of "shop", 2 sequences do not follow those of the publisher: "public.orders.id", "tickets"\n'
        "HINT:  Sequences and counters are not replicated. Before an application inserts into the target, run:"
        " ALTER SUBSCRIPTION shop REFRESH SEQUENCES\n"
    )
    (status,) = json.loads(printed(behind, arguments=["--json"]))
    assert status["sequences_behind"] == ["public.orders.id", "tickets"]
    assert "REFRESH" not in printed(replace(STATUS, sequences_behind=()), replace(STATUS, name="unknown"))


def test_the_status_of_a_target_without_subscriptions_has_a_hint(run, target):
    code, out, _ = run("status", "--target", target)
    assert code == 0
    assert "CREATE SUBSCRIPTION" in out
    assert json.loads(run("status", "--target", target, "--json")[1]) == []


def test_the_status_of_a_wrong_target_creates_no_file(run, tmp_path):
    code, out, _ = run("status", "--target", f"sqlite:///{tmp_path / 'wrong.db'}")
    assert (code, out.partition(". ")[0]) == (0, f"There is no file {tmp_path / 'wrong.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("failover", "line"),
    [
        (FailoverStatus(True, ("b:5432", "c:5432"), ()), "shop is ready for a failover to b:5432, c:5432\n"),
        (
            FailoverStatus(False, ("b:5432",), ("b:5432: hot_standby_feedback is off", "c:5432: away")),
            (
                "WARNING:  shop is not ready for a failover: b:5432: hot_standby_feedback is off; c:5432: away\n"
                "HINT:  `subscriber check --subscription shop` says what puts it right.\n"
            ),
        ),
        (
            FailoverStatus(None, (), ()),
            "it is not known whether shop is ready for a failover: CONNECTION names no standby that answers\n",
        ),
    ],
)
def test_a_subscription_with_failover_has_a_line_that_says_whether_standbys_are_ready(printed, failover, line):
    assert f"\n{line}" in printed(replace(STATUS, failover=failover))
    assert "failover" not in printed(STATUS)


ADDED = SchemaChange(
    "2026-11-21T10:00:00.000+00:00",
    "public.t",
    "0/100",
    "ALTER TABLE t ADD COLUMN c INT",
    'Column "c" came up.',
    None,
    None,
    "public",
    "t",
)
DIFFERS = replace(ADDED, statement=None, difference="Rows have NULL.")


def parts(*changes: SchemaChange) -> list[str]:
    return list(schema_change_parts([replace(STATUS, schema_changes=changes)]))


def test_each_alter_table_has_a_row():
    (table,) = parts(ADDED)
    assert [cell.strip() for cell in table.splitlines()[-2].split("|")] == [
        "shop",
        "public.t",
        "2026-11-21T10:00:00.000+00:00",
        "0/100",
        "ALTER TABLE t ADD COLUMN c INT",
    ]


def test_a_warning_is_shown_until_the_table_is_copied_again():
    (warning,) = parts(DIFFERS)
    assert warning.splitlines()[0] == (
        "WARNING:  rows of table public.t (shop) may differ from the publisher's since 0/100 (2026-11-21T10:00:00.000+00:00)"
    )
    assert warning.splitlines()[1] == 'DETAIL:  Column "c" came up. Rows have NULL.'
    assert warning.splitlines()[2] == (
        "HINT:  To copy the table again: ALTER SUBSCRIPTION shop REFRESH TABLE public.t; The warning also ends when"
        " `subscriber verify shop` finds the rows to be equal."
    )
    assert parts(replace(DIFFERS, resolved_at="2026-11-22T10:00:00.000+00:00")) == []


def test_tables_that_differ_for_the_same_reason_have_one_warning():
    tables = [replace(DIFFERS, relation=f"public.t{number}", name=f"t{number}") for number in range(7)]
    warning, _ = parts(*tables, replace(DIFFERS, reason="Another one."))
    assert warning.splitlines()[0] == (
        "WARNING:  rows of 7 tables, public.t0, public.t1, public.t2, public.t3, public.t4, … (shop)"
        " may differ from the publisher's since 0/100 (2026-11-21T10:00:00.000+00:00)"
    )
    named = ", ".join(f"public.t{number}" for number in range(7))
    hint = warning.splitlines()[2]
    assert hint.startswith(f"HINT:  To copy the tables again: ALTER SUBSCRIPTION shop REFRESH TABLE {named};")


def test_without_an_alter_table_nothing_is_printed():
    assert parts() == []
