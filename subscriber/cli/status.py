"""``subscriber status``: how every subscription of a target is doing."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from subscriber.cli.options import json_option, target_option
from subscriber.cli.table import format_rows
from subscriber.settings import Settings
from subscriber.subscription.status import SubscriptionStatus, subscription_statuses
from subscriber.target import open_target

_HEADINGS = (
    "subscription", "enabled", "slot", "confirmed", "received", "applied", "lag", "tables", "conflicts", "errors",
)  # fmt: skip
_STATES = {"i": "init", "d": "copying", "f": "copied", "s": "synced", "r": "ready"}


@click.command("status")
@target_option
@json_option
def command(target: str, as_json: bool) -> None:
    """Show subscriptions, table states, lag, conflicts and the last error.

    What cannot be reached from here (the publisher, or a journal on another machine) shows as "?".
    """
    with open_target(target) as database:
        statuses = subscription_statuses(database, Settings.from_environment())
    if as_json:
        click.echo(json.dumps([asdict(status) for status in statuses], indent=1))
        return
    if not statuses:
        click.echo("no subscriptions; create one with: subscriber sql -c 'CREATE SUBSCRIPTION …'")
        return
    click.echo(format_rows(_HEADINGS, [_row(status) for status in statuses]))
    for status in statuses:
        if status.last_error:
            click.echo(f"\nlast error of {status.name} ({status.last_error_at}):\n{status.last_error}")


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
