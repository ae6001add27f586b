"""The part of ``subscriber status`` about tables that were altered in the target."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from subscriber.catalog import SchemaChange, copy_again
from subscriber.cli.psql_table import format_rows
from subscriber.runtime.subscription_status import SubscriptionStatus

_HEADINGS: Final = ("subscription", "table", "at", "LSN", "statement")
_SHOWN: Final = 10
"""The number of changes that are shown for each subscription, newest last. ``--json`` shows all."""
_NAMED: Final = 5
"""The number of tables that a warning names before its hint, which names all."""


def schema_change_parts(statuses: Sequence[SubscriptionStatus]) -> Iterator[str]:
    """The tables that were altered, and a warning for each table that may differ from the
    publisher's.
    """
    rows = [
        [status.name, change.relation, change.changed_at, change.remote_lsn or "-", change.statement]
        for status in statuses
        for change in status.schema_changes[-_SHOWN:]
        if change.statement is not None
    ]
    if rows:
        yield format_rows(_HEADINGS, rows, "Tables that were altered")
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
        tables = f"table {names[0]}" if len(names) == 1 else f"{len(names)} tables, {', '.join(names[:_NAMED])}"
        more = ", …" if len(names) > _NAMED else ""
        since = changes[0].changed_at if lsn is None else f"{lsn} ({changes[0].changed_at})"
        published = [(change.schema, change.name) for change in changes]
        yield (
            f"WARNING:  rows of {tables}{more} ({status.name}) may differ from the publisher's since {since}"
            f"\nDETAIL:  {reason} {difference}\nHINT:  {copy_again(published, status.name)}"
            f" The warning also ends when `subscriber verify {shlex.quote(status.name)}` finds the rows to be equal."
        )
