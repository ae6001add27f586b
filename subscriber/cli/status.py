"""``subscriber status``: the state of every subscription of a target."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click
from rich.filesize import decimal

from subscriber.catalog import RelationState, ReplacedCount, WorkerStatus, missing_catalog
from subscriber.cli.options import json_option, target_option
from subscriber.cli.psql_table import format_rows
from subscriber.cli.schema_change_table import schema_change_parts
from subscriber.errors import TargetUnavailable
from subscriber.lsn import parse_lsn
from subscriber.runtime.read_status import subscription_statuses
from subscriber.runtime.status_file import read_status_file
from subscriber.runtime.subscription_status import (
    CutoverStatus,
    FailoverStatus,
    HoldStatus,
    RelationStatus,
    RunnerStatus,
    SubscriptionStatus,
)
from subscriber.settings import Settings
from subscriber.sql.keywords import quote_identifier
from subscriber.targets import Target, open_target

_HEADINGS = ("subscription", "state", "received", "applied", "lag", "tables", "conflicts", "errors")
_SLOT_HEADINGS = ("subscription", "slot", "receiver", "confirmed", "WAL status", "retained", "may still grow")
_RELATION_HEADINGS = ("subscription", "table", "state", "rows", "bytes", "rate", "since", "error")
_REPLACED_HEADINGS = ("subscription", "table", "column", "values", "first", "last")
_EXACT_BYTES = 1_000_000
_STREAMING = ("copying", "streaming", "retrying")
_STATES = {"i": "init", "d": "copying", "f": "copied", "s": "synced", "r": "ready"}


@click.command("status")
@target_option
@json_option
def command(target: str, as_json: bool) -> None:
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
    """
    with open_target(target) as database:
        statuses, as_of = _statuses(database)
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
        if status.hold is not None:
            click.echo("\n" + _hold_line(status.name, status.hold))
    for part in schema_change_parts(statuses):
        click.echo(f"\n{part}")
    for status in statuses:
        if status.cutover is not None:
            click.echo(f"\n{_cutover_line(status.name, status.cutover)}")
        if status.failover is not None:
            click.echo(f"\n{_failover_line(status.name, status.failover)}")
        for warning in _warnings(status):
            click.echo(f"\n{warning}")
        if status.worker is not None and status.state in ("retrying", "stopped"):
            click.echo(f"\n{_worker_line(status.name, status.worker)}")
        if status.sequences_behind:
            click.echo(f"\n{_sequences_line(status.name, status.sequences_behind)}")
        if status.last_error:
            click.echo(f"\nlast error of {status.name} ({_when(status)}):\n{status.last_error}")


def _runner_line(runner: RunnerStatus | None) -> str:
    """Whether a ``subscriber run`` is running for the target."""
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


def _server_lines(statuses: Sequence[SubscriptionStatus]) -> Iterator[str]:
    """From which servers is streamed, and how many notices each publisher has sent."""
    names: dict[str, list[str]] = {}
    for status in statuses:
        worker = status.worker
        if worker is not None and worker.server is not None and status.state in _STREAMING:
            notices = f" ({worker.notices} notices in the log)" if worker.notices else ""
            names.setdefault(worker.server, []).append(f"{status.name}{notices}")
    for server, streamed in names.items():
        yield f"streaming from {server}: {', '.join(streamed)}"


def _silence(runner: RunnerStatus) -> Iterator[str]:
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


def _cutover_line(name: str, cutover: CutoverStatus) -> str:
    """A cutover in progress, and the ways on."""
    command = f"subscriber cutover {shlex.quote(name)}"
    step = cutover.step or "preconditions"
    if cutover.state == "switched":
        text = f"cutover of {name}: switched over at {cutover.switched_at}, barrier {cutover.barrier_lsn}"
        ways = f"to stay: {command} --finish; to go back: {command} --abandon"
    else:
        text = f"cutover of {name}: in step {step} since {cutover.started_at}"
        ways = f"stopped; to go on: {f'{command} {cutover.options}'.rstrip()}; to go back: {command} --abandon"
    if cutover.fenced_database is not None:
        text += f'; database "{cutover.fenced_database}" of the publisher is fenced'
    if cutover.way_back is not None:
        text += f'; way back "{cutover.way_back}"'
    return f"{text}; carried out by {cutover.process}" if cutover.process else f"{text}; {ways}"


def _sequences_line(subscription: str, behind: Sequence[str]) -> str:
    """The sequences of the target that are to be set before an application inserts there."""
    from subscriber.commands.refresh_sequences import behind_in_words  # imported where there are any

    message, hint = behind_in_words(subscription, behind)
    return f"NOTICE:  {message}\nHINT:  {hint}"


def _failover_line(name: str, failover: FailoverStatus) -> str:
    """Whether a standby could take the slot over."""
    if failover.problems:
        return (
            f"WARNING:  {name} is not ready for a failover: {'; '.join(failover.problems)}\n"
            f"HINT:  `subscriber check --subscription {shlex.quote(name)}` says what puts it right."
        )
    if failover.ready is None:
        return f"it is not known whether {name} is ready for a failover: CONNECTION names no standby that answers"
    return f"{name} is ready for a failover to {', '.join(failover.standbys)}"


def _hold_line(subscription: str, hold: HoldStatus) -> str:
    """Which command holds the apply of a subscription."""
    state = {"requested": "is to be held", "paused": "is paused", "held": "is held"}[hold.state]
    at = "" if hold.lsn is None else f" at {hold.lsn}" if hold.state == "held" else f" until it is at {hold.lsn}"
    since = f"since {hold.since}"
    return f"the apply of {subscription} {state}{at} by process {hold.process_id} on host {hold.host}, {since}"


def _warnings(status: SubscriptionStatus) -> Iterator[str]:
    """The problems that need an action of the user, before or after data is lost."""
    quoted = '"' + status.name.replace('"', '""') + '"'
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


def _when(status: SubscriptionStatus) -> str:
    return f"{status.last_error_at}, " + (
        "not resolved yet" if status.last_error_resolved_at is None else f"resolved at {status.last_error_resolved_at}"
    )


def _statuses(database: Target) -> tuple[list[SubscriptionStatus], str | None]:
    """The statuses, and the time at which they were taken if they are not current."""
    left = read_status_file(database.status_file)
    if left is None or not left.is_fresh:
        try:
            return subscription_statuses(database, Settings.from_environment(), with_sequences=True), None
        except TargetUnavailable:
            left = read_status_file(database.status_file) or left  # a batch may have begun
            if left is None:
                raise
    return left.statuses, left.as_of


def _known(status: SubscriptionStatus) -> str:
    return max(status.received_lsn or status.applied_lsn, status.applied_lsn, key=parse_lsn)


def _row(status: SubscriptionStatus) -> list[str]:
    seconds = "?" if status.lag_seconds is None else f"{status.lag_seconds:.1f} s"
    errors = [
        f"{number} {kind}" for number, kind in ((status.apply_errors, "apply"), (status.sync_errors, "copy")) if number
    ]
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


def _slot_row(status: SubscriptionStatus) -> list[str]:
    """The publisher's information about the slot.

    "-" means that there is no value, or that the publisher's version does not report it.
    """
    slot = status.slot
    if slot is None:
        there = "missing" if status.slot_missing else "-" if status.slot_name is None else "?"
        return [status.name, status.slot_name or "(none)", there, *["-" if there == "-" else "?"] * 4]
    return [
        status.name,
        status.slot_name or "(none)",
        "active" if slot.active else "inactive",
        slot.confirmed_lsn,
        slot.wal_status or "-",
        "-" if slot.retained_bytes is None else decimal(slot.retained_bytes),
        "-" if slot.safe_wal_bytes is None else decimal(max(0, slot.safe_wal_bytes)),
    ]


def _replaced_row(subscription: str, replaced: ReplacedCount) -> list[str]:
    """How many values of a column the target could not hold, and where the first and the last one
    were.
    """
    return [
        subscription,
        replaced.relation,
        replaced.column,
        f"{replaced.count:,}",
        replaced.first_lsn,
        replaced.last_lsn,
    ]


def _relation_row(subscription: str, relation: RelationStatus) -> list[str | None]:
    """The progress of a copy, with the publisher's estimates as totals, and the last attempt's
    error.
    """
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
