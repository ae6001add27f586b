"""``subscriber status``: how every subscription of a target is doing."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from rich.filesize import decimal

from subscriber.cli.options import json_option, target_option
from subscriber.cli.schema_changes import schema_change_parts
from subscriber.cli.table import format_rows
from subscriber.errors import TargetUnavailable
from subscriber.lsn import parse_lsn
from subscriber.settings import Settings
from subscriber.subscription.catalog import RelationState
from subscriber.subscription.status import RelationStatus, SubscriptionStatus, subscription_statuses
from subscriber.subscription.status_file import read_status_file
from subscriber.target import Target, open_target

_HEADINGS = (
    "subscription", "enabled", "slot", "confirmed", "received", "applied", "lag", "tables", "conflicts", "errors",
)  # fmt: skip
_RELATION_HEADINGS = ("subscription", "table", "state", "rows", "bytes", "rate", "since", "error")
_STATES = {"i": "init", "d": "copying", "f": "copied", "s": "synced", "r": "ready"}


@click.command("status")
@target_option
@json_option
def command(target: str, as_json: bool) -> None:
    """Show subscriptions, table states, copies in progress, lag, conflicts and the last error.

    What cannot be reached from here (the publisher, or a journal on another machine) shows as "?". While a batch of `subscriber run` holds
    a DuckDB file, which nobody else can read then, the status is the one that it has left beside it, a few seconds old.
    """
    with open_target(target) as database:
        statuses, as_of = _statuses(database)
    if as_json:
        click.echo(json.dumps([asdict(status) for status in statuses], indent=1))
        return
    if as_of is not None:
        click.echo(f"as of {as_of}, while `subscriber run` holds the target with a batch or a copy:\n")
    if not statuses:
        place = database.url.set(query={}).render_as_string()
        click.echo(f"no subscriptions in {place}; create one with: subscriber sql -c 'CREATE SUBSCRIPTION …'")
        return
    click.echo(format_rows(_HEADINGS, [_row(status) for status in statuses]))
    pending = [
        _relation_row(status.name, relation)
        for status in statuses
        for relation in status.relations
        if relation.state != RelationState.READY
    ]
    if pending:
        click.echo("\n" + format_rows(_RELATION_HEADINGS, pending, "Tables that are not ready"))
    for part in schema_change_parts(statuses):
        click.echo(f"\n{part}")
    for status in statuses:
        if status.history_diverged:
            click.echo(
                f"\nWARNING:  the publisher of {status.name} has WAL up to {status.publisher_lsn} only, and changes up to"
                f" {_known(status)} were received\nDETAIL:  It was restored to an older state, or another server was promoted.\n"
                "HINT:  `subscriber run` says which tables have changes that the publisher lost, and what to do."
            )
        if status.last_error:
            click.echo(f"\nlast error of {status.name} ({status.last_error_at}):\n{status.last_error}")


def _statuses(database: Target) -> tuple[list[SubscriptionStatus], str | None]:
    """The statuses, and as of when they are where they are not of now."""
    left = read_status_file(database.status_file)
    if left is None or not left.is_fresh:
        try:
            return subscription_statuses(database, Settings.from_environment()), None
        except TargetUnavailable:
            left = read_status_file(database.status_file) or left  # a batch may have begun meanwhile
            if left is None:
                raise
    return left.statuses, left.as_of


def _known(status: SubscriptionStatus) -> str:
    return max(status.received_lsn or status.applied_lsn, status.applied_lsn, key=parse_lsn)


def _row(status: SubscriptionStatus) -> list[str]:
    activity = {True: "active", False: "inactive", None: "?"}[status.slot_active]
    seconds = "?" if status.lag_seconds is None else f"{status.lag_seconds:.1f} s"
    return [
        status.name,
        "yes" if status.enabled else "no",
        f"{status.slot_name or '(none)'}, {activity}",
        status.confirmed_lsn or "?",
        status.received_lsn or "?",
        status.applied_lsn,
        f"{'?' if status.lag_bytes is None else f'{status.lag_bytes:,}'} B, {seconds}",
        ", ".join(f"{number} {_STATES[state]}" for state, number in status.tables.items()) or "-",
        ", ".join(f"{kind} {number}" for kind, number in status.conflicts.items()) or "-",
        str(status.apply_errors),
    ]


def _relation_row(subscription: str, relation: RelationStatus) -> list[str | None]:
    """Figures while it is being copied, as the publisher's statistics estimate the whole; the error of the last attempt."""
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
