"""``subscriber status``: the state of every subscription of a target."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import Final

import click
from rich.filesize import decimal

from subscriber.base.errors import SubscriberError, TargetUnavailable
from subscriber.base.lsn import parse_lsn
from subscriber.base.settings import Settings
from subscriber.catalog.counters import WorkerCounters
from subscriber.catalog.existing_catalog import missing_catalog
from subscriber.catalog.replaced_values import ReplacedCount
from subscriber.catalog.schema_changes import SchemaChange, copy_again
from subscriber.catalog.table_states import RelationState
from subscriber.catalog.worker_status import WorkerStatus
from subscriber.cli.options import json_option, target_option
from subscriber.operate import health
from subscriber.postgres.sql.quoting import delimited_identifier, quote_identifier
from subscriber.targets import Target, open_target
from subscriber.testing.session.psql_table import format_rows
from subscriber.worker import subscription_status
from subscriber.worker.read_status import subscription_statuses
from subscriber.worker.subscription_status import SubscriptionStatus

_HEADINGS = ("subscription", "state", "received", "applied", "lag", "tables", "conflicts", "errors")
_WATCH_SECONDS = 2.0
_SLOT_HEADINGS = (
    "subscription",
    "slot",
    "receiver",
    "confirmed",
    "WAL status",
    "retained",
    "may still grow",
    "journal",
)
_RELATION_HEADINGS = ("subscription", "table", "state", "rows", "bytes", "rate", "since", "error")
_SEQUENCE_HEADINGS = ("subscription", "sequence", "since", "error")
_REPLACED_HEADINGS = ("subscription", "table", "column", "values", "first", "last")
_EXACT_BYTES = 1_000_000
_STREAMING = ("copying", "streaming", "retrying")
_STATES = {"i": "init", "d": "copying", "f": "copied", "s": "synced", "r": "ready"}


@click.command("status")
@target_option
@json_option
@click.option(
    "--check",
    metavar="LIMITS",
    help="Print one line and exit as a monitoring plugin: 0 ok, 1 warning, 2 critical, 3 unknown; such as lag=60s,errors=0.",
)
@click.option("--watch", is_flag=True, help="Show the status again every two seconds, until Ctrl-C.")
def command(target: str, as_json: bool, check: str | None, watch: bool) -> None:
    """Show the state of all subscriptions of a target, and whether `subscriber run` is running.

    For each subscription prints its state, the received and the applied LSN, the lag, the states of
    its tables, and the numbers of conflicts and errors; then its slot at the publisher, the tables
    that are not ready with the progress of their copies, a command that holds the apply, tables
    that were altered, whether standbys are ready for a failover, warnings, since when it retries or
    has stopped, sequences of the target that do not follow those of the publisher, and the last
    error.

    The lag in seconds is the age of the oldest commit that was received and is not applied; it is 0
    if everything at the publisher is applied. "?" is a value that cannot be read from this machine:
    the publisher does not answer, or the journal is on another machine. While `subscriber run`
    locks a DuckDB file with a batch or a copy, the status is read from the file that `subscriber
    run` has written beside it, and is some seconds old.

    A line says why a value is "?". With --check, the rules are those of the address /health of
    `subscriber run --http`.
    """
    limits = None if check is None else health.parse_limits(check)
    with open_target(target) as database:
        while True:
            if watch:
                click.clear()
            code = _show(database, limits, as_json=as_json)
            if not watch:
                sys.exit(code)
            sys.stdout.flush()
            time.sleep(_WATCH_SECONDS)


def _show(database: Target, limits: health.HealthLimits | None, *, as_json: bool) -> int:
    """Print the status, or with limits what is wrong; returns the exit code."""
    if limits is not None:
        return _check(database, limits)
    statuses, as_of = _statuses(database)
    _print(database, statuses, as_of, as_json=as_json)
    return 0


def _check(database: Target, limits: health.HealthLimits) -> int:
    try:
        statuses, _ = _statuses(database)
    except SubscriberError as error:
        click.echo(f"{health.Verdict.UNKNOWN.name}: {error.message}")
        return health.Verdict.UNKNOWN
    found = health.judge(map(_facts, statuses), limits)
    click.echo(str(found))
    return found.verdict


def _facts(status: subscription_status.SubscriptionStatus) -> health.HealthFacts:
    attempts = status.worker.attempts if status.worker is not None and status.state == "retrying" else 0
    failed = sum(one.error is not None and one.state != RelationState.READY for one in status.relations)
    slot = status.slot
    lost = status.slot_missing or (slot is not None and slot.lost is not None)
    unreserved = slot is not None and slot.wal_status == "unreserved"
    problem = "lost" if lost else "unreserved" if unreserved else None
    why = "; ".join(status.unknown) or None
    return health.HealthFacts(status.name, status.state, status.lag_seconds, attempts + failed, problem, why)


def _print(
    database: Target,
    statuses: Sequence[subscription_status.SubscriptionStatus],
    as_of: str | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        click.echo(json.dumps([asdict(status) for status in statuses], indent=1))
        return
    if as_of is not None:
        click.echo(f"as of {as_of}, while a batch or a copy of `subscriber run` locks the target:\n")
    if not statuses:
        click.echo(f"{missing_catalog(database)}. Create one with: subscriber sql -c 'CREATE SUBSCRIPTION …'")
        return
    click.echo(format_rows(_HEADINGS, [_row(status) for status in statuses]))
    click.echo("\n" + format_rows(_SLOT_HEADINGS, [_slot_row(status) for status in statuses], "Slots at the publisher"))
    pending = [
        _relation_row(status.name, relation)
        for status in statuses
        for relation in status.relations
        if relation.state != RelationState.READY
    ]
    if pending:
        click.echo("\n" + format_rows(_RELATION_HEADINGS, pending, "Tables that are not ready"))
    sequences = [
        [status.name, f"{one.schema}.{one.name}", one.error_at, one.error and one.error.partition("\n")[0]]
        for status in statuses
        for one in status.sequences
        if one.state != RelationState.READY
    ]
    if sequences:
        click.echo("\n" + format_rows(_SEQUENCE_HEADINGS, sequences, "Sequences that are not ready"))
    replaced = [_replaced_row(status.name, one) for status in statuses for one in status.replaced_values]
    if replaced:
        click.echo("\n" + format_rows(_REPLACED_HEADINGS, replaced, "Values that were replaced by NULL"))
    click.echo("\n" + _runner_line(statuses[0].runner))
    if as_of is None and statuses[0].runner is not None:
        for warning in _silence(statuses[0].runner):
            click.echo(f"\n{warning}")
    for line in _server_lines(statuses):
        click.echo(line)
    for status in statuses:
        if status.conflict_resolvers:
            resolvers = ", ".join(f"{kind} = {resolver}" for kind, resolver in status.conflict_resolvers.items())
            click.echo(f"\nconflict resolvers of {status.name}: {resolvers}")
    for status in statuses:
        if status.hold is not None:
            click.echo("\n" + _hold_line(status.name, status.hold))
    for part in schema_change_parts(statuses):
        click.echo(f"\n{part}")
    for status in statuses:
        if status.cutover is not None:
            click.echo(f"\n{status.cutover.in_words(status.name)}")
        if status.failover is not None:
            click.echo(f"\n{_failover_line(status.name, status.failover)}")
        for warning in _warnings(status):
            click.echo(f"\n{warning}")
        for cause in status.unknown:
            click.echo(f"\nnot known of {status.name}: {cause}")
        if status.worker is not None and status.state in ("retrying", "stopped"):
            click.echo(f"\n{_worker_line(status.name, status.worker)}")
        if status.sequences_behind:
            click.echo(f"\n{_sequences_line(status.name, status.sequences_behind)}")
        if status.last_error:
            click.echo(f"\nlast error of {status.name} ({_when(status)}):\n{status.last_error}")


def _runner_line(runner: subscription_status.RunnerStatus | None) -> str:
    if runner is None:
        return "`subscriber run` has not been started for this target"
    place = f"on host {runner.host}, process {runner.process_id}"
    if not runner.alive:
        if runner.ended_at is not None:
            return f"`subscriber run` is not running; the last one ended at {runner.ended_at} ({place})"
        return (
            f"WARNING:  `subscriber run` is not running; the last one ({place}) did not end normally, and wrote its last heartbeat at"
            f" {runner.heartbeat_at}"
        )
    busy = "" if runner.busy_since is None else f", busy with a batch or a copy since {runner.busy_since}"
    return f"`subscriber run` has been running since {runner.started_at} {place}, last heartbeat at {runner.heartbeat_at}{busy}"


def _worker_line(name: str, worker: WorkerStatus) -> str:
    """Since when a worker retries or has stopped, and what follows."""
    if worker.state == "stopped":
        return f"{name} stopped at {worker.since}; when its cause is removed: ALTER SUBSCRIPTION {name} ENABLE"
    following = "" if worker.next_attempt is None else f", the next one begins at {worker.next_attempt}"
    attempts = "attempt has" if worker.attempts == 1 else "attempts have"
    return f"{name} retries since {worker.since}: {worker.attempts} {attempts} failed{following}"


def _server_lines(statuses: Sequence[subscription_status.SubscriptionStatus]) -> Iterator[str]:
    """From which servers is streamed, and what the workers have counted."""
    names: dict[str, list[str]] = {}
    for status in statuses:
        worker = status.worker
        if worker is not None and worker.server is not None and status.state in _STREAMING:
            counts = [(getattr(worker, one.name), one.metadata["shown"]) for one in fields(WorkerCounters)]
            counted = ", ".join(f"{number} {shown}" for number, shown in counts if number)
            names.setdefault(worker.server, []).append(f"{status.name} ({counted})" if counted else status.name)
    for server, streamed in names.items():
        yield f"streaming from {server}: {', '.join(streamed)}"


def _silence(runner: subscription_status.RunnerStatus) -> Iterator[str]:
    """A run that holds its lock and has not written a heartbeat for long."""
    if runner.silent_seconds is None:
        return
    busy = (
        "It is busy with a long batch or a long copy, during which this target takes no heartbeat, or it hangs."
        if runner.may_be_busy
        else "It hangs, or it cannot write to the target."
    )
    yield (
        f"WARNING:  `subscriber run` is there, but wrote its last heartbeat {runner.silent_seconds / 60:.0f} minutes ago\nDETAIL:  {busy}\n"
        f"HINT:  Look at its log, at the state of process {runner.process_id} on host {runner.host} (T: it was stopped, D: it waits for a"
        " disk), and at the space on its disks. If it hangs, kill it and start it again: nothing is lost."
    )


def _sequences_line(subscription: str, behind: Sequence[str]) -> str:
    """The sequences of the target that are to be set before an application inserts there."""
    from subscriber.commands.refresh_sequences import behind_in_words  # imported where there are any

    message, hint = behind_in_words(subscription, behind)
    return f"NOTICE:  {message}\nHINT:  {hint}"


def _failover_line(name: str, failover: subscription_status.FailoverStatus) -> str:
    """Whether a standby could take the slot over."""
    if failover.problems:
        return (
            f"WARNING:  {name} is not ready for a failover: {'; '.join(failover.problems)}\n"
            f"HINT:  `subscriber check --subscription {shlex.quote(name)}` says what puts it right."
        )
    if failover.ready is None:
        return f"it is not known whether {name} is ready for a failover: CONNECTION names no standby that answers"
    return f"{name} is ready for a failover to {', '.join(failover.standbys)}"


def _hold_line(subscription: str, hold: subscription_status.HoldStatus) -> str:
    state = {"requested": "is to be held", "paused": "is paused", "held": "is held"}[hold.state]
    at = "" if hold.lsn is None else f" at {hold.lsn}" if hold.state == "held" else f" until it is at {hold.lsn}"
    since = f"since {hold.since}"
    return f"the apply of {subscription} {state}{at} by process {hold.process_id} on host {hold.host}, {since}"


def _warnings(status: subscription_status.SubscriptionStatus) -> Iterator[str]:
    """The problems that need an action of the user, before or after data is lost."""
    quoted = delimited_identifier(status.name)
    again = (
        f"ALTER SUBSCRIPTION {quoted} RECREATE SLOT makes a new slot and copies all tables again;"
        " readers see the old rows until then."
    )
    if status.history_diverged:
        yield (
            f"WARNING:  the publisher of {status.name} has WAL only up to {status.publisher_lsn}, but changes up to"
            f" {_known(status)} were received\nDETAIL:  It was restored to an older state, or another server was promoted.\n"
            "HINT:  `subscriber run` says which tables have changes that the publisher lost, and what to do."
        )
    if status.slot_missing:
        yield (
            f'WARNING:  replication slot "{status.slot_name}" of {status.name} does not exist at the publisher\n'
            f"HINT:  It was dropped there, and changes since then are lost. {again}"
        )
    for name in status.missing_publications:
        yield (
            f'WARNING:  publication "{name}" of {status.name} does not exist at the publisher\n'
            "DETAIL:  From PostgreSQL 18 on, the publisher skips it, and rows that are written meanwhile are missing. Before, the stream stops.\n"
            f"HINT:  Create it at the publisher, or: ALTER SUBSCRIPTION {quote_identifier(status.name)} DROP PUBLICATION {quote_identifier(name)};"
        )
    if status.waits_for:
        yield (
            f"WARNING:  the publisher sends {status.name} nothing: its walsender waits for {'; '.join(status.waits_for)}\n"
            "HINT:  Start the standby, or take its slot out of synchronized_standby_slots at the publisher."
        )
    slot = status.slot
    if slot is not None and slot.lost is not None:
        yield (
            f'WARNING:  replication slot "{status.slot_name}" of {status.name} is lost: {slot.lost}\n'
            f"DETAIL:  The publisher has removed WAL after {slot.confirmed_lsn} that it had not sent.\nHINT:  {again}"
        )
    elif slot is not None and slot.wal_status == "unreserved":
        yield (
            f'WARNING:  replication slot "{status.slot_name}" of {status.name} is about to be lost: the publisher keeps no WAL for it'
            " beyond its next checkpoint\nHINT:  Start `subscriber run`, or raise max_slot_wal_keep_size at the publisher."
        )


def _when(status: subscription_status.SubscriptionStatus) -> str:
    return f"{status.last_error_at}, " + (
        "not resolved yet" if status.last_error_resolved_at is None else f"resolved at {status.last_error_resolved_at}"
    )


def _statuses(database: Target) -> tuple[list[subscription_status.SubscriptionStatus], str | None]:
    """The statuses, and the time at which they were taken if they are not current."""
    left = subscription_status.read_status_file(database.status_file)
    if left is None or not left.is_fresh:
        try:
            return subscription_statuses(database, Settings.from_environment(), with_sequences=True), None
        except TargetUnavailable:
            left = subscription_status.read_status_file(database.status_file) or left  # a batch may have begun
            if left is None:
                raise
    return left.statuses, left.as_of


def _known(status: subscription_status.SubscriptionStatus) -> str:
    return max(status.received_lsn or status.applied_lsn, status.applied_lsn, key=parse_lsn)


def _row(status: subscription_status.SubscriptionStatus) -> list[str]:
    seconds = "?" if status.lag_seconds is None else f"{status.lag_seconds:.1f} s"
    counts = ((status.apply_errors, "apply"), (status.sync_errors, "copy"), (status.sequence_errors, "sequence"))
    errors = [f"{number} {kind}" for number, kind in counts if number]
    return [
        status.name,
        status.state,
        status.received_lsn or "?",
        status.applied_lsn,
        f"{_bytes(status.lag_bytes)}, {seconds}",
        ", ".join(f"{number} {_STATES[state]}" for state, number in status.tables.items()) or "-",
        ", ".join(f"{kind} {number}" for kind, number in status.conflicts.items()) or "-",
        ", ".join(errors) or "0",
    ]


def _bytes(number: int | None) -> str:
    if number is None:
        return "? B"
    return f"{number:,} B" if number < _EXACT_BYTES else decimal(number)


def _slot_row(status: subscription_status.SubscriptionStatus) -> list[str]:
    """What the publisher says about the slot; "-" where it says nothing."""
    slot, journal = status.slot, "?" if status.journal_bytes is None else decimal(status.journal_bytes)
    if slot is None:
        there = "missing" if status.slot_missing else "-" if status.slot_name is None else "?"
        return [status.name, status.slot_name or "(none)", there, *["-" if there == "-" else "?"] * 4, journal]
    return [
        status.name,
        status.slot_name or "(none)",
        "active" if slot.active else "inactive",
        slot.confirmed_lsn,
        slot.wal_status or "-",
        "-" if slot.retained_bytes is None else decimal(slot.retained_bytes),
        "-" if slot.safe_wal_bytes is None else decimal(max(0, slot.safe_wal_bytes)),
        journal,
    ]


def _replaced_row(subscription: str, replaced: ReplacedCount) -> list[str]:
    """How many values of a column the target could not hold, and where first and last."""
    return [
        subscription,
        replaced.relation,
        replaced.column,
        f"{replaced.count:,}",
        replaced.first_lsn,
        replaced.last_lsn,
    ]


def _relation_row(subscription: str, relation: subscription_status.RelationStatus) -> list[str | None]:
    """The progress of a copy, with the publisher's estimates as totals, and the last error."""
    copy = relation.copy
    figures: list[str | None] = [None, None, None]
    if copy is not None:
        figures = [
            f"{copy.rows:,} of {copy.estimated_rows:,}",
            f"{decimal(copy.bytes)} of {decimal(copy.estimated_bytes)}",
            f"{copy.rows_per_second:,.0f} rows/s",
        ]
    return [
        subscription,
        f"{relation.schema}.{relation.name}",
        _STATES[relation.state],
        *figures,
        relation.error_at if copy is None else copy.started_at,
        relation.error and relation.error.partition("\n")[0],
    ]


# Tables that were altered in the target --------------------------------------------------------

_ALTERED_HEADINGS: Final = ("subscription", "table", "at", "LSN", "statement")
_SHOWN_CHANGES: Final = 10
"""For each subscription, newest last. ``--json`` shows all."""
_NAMED_TABLES: Final = 5
"""The number of tables that a warning names before its hint, which names all."""


def schema_change_parts(statuses: Sequence[SubscriptionStatus]) -> Iterator[str]:
    """The tables that were altered, and warnings of those that may differ from the publisher's."""
    rows = [
        [status.name, change.relation, change.changed_at, change.remote_lsn or "-", change.statement]
        for status in statuses
        for change in status.schema_changes[-_SHOWN_CHANGES:]
        if change.statement is not None
    ]
    if rows:
        yield format_rows(_ALTERED_HEADINGS, rows, "Tables that were altered")
    for status in statuses:
        yield from _differences(status)


def _differences(status: SubscriptionStatus) -> Iterator[str]:
    """A warning for the tables that may differ for the same reason."""
    alike: dict[tuple[str, str | None, str | None], list[SchemaChange]] = {}
    for change in status.schema_changes:
        if change.differs:
            alike.setdefault((change.reason, change.difference, change.remote_lsn), []).append(change)
    for (reason, difference, lsn), changes in alike.items():
        names = [change.relation for change in changes]
        tables = f"table {names[0]}" if len(names) == 1 else f"{len(names)} tables, {', '.join(names[:_NAMED_TABLES])}"
        more = ", …" if len(names) > _NAMED_TABLES else ""
        since = changes[0].changed_at if lsn is None else f"{lsn} ({changes[0].changed_at})"
        published = [(change.schema, change.name) for change in changes]
        yield (
            f"WARNING:  rows of {tables}{more} ({status.name}) may differ from the publisher's since {since}"
            f"\nDETAIL:  {reason} {difference}\nHINT:  {copy_again(published, status.name)}"
            f" The warning also ends when `subscriber verify {shlex.quote(status.name)}` finds the rows to be equal."
        )
