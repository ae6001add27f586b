"""The part of ``subscriber status`` about tables that were altered in the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from subscriber.catalog import COPY_AGAIN
from subscriber.cli.psql_table import format_rows
from subscriber.runtime.subscription_status import SubscriptionStatus

_HEADINGS: Final = ("subscription", "table", "at", "LSN", "statement")
_SHOWN: Final = 10
"""The number of changes that are shown for each subscription, newest last. ``--json`` shows all."""


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
        for change in status.schema_changes:
            if change.differs:
                yield (
                    f"WARNING:  rows of table {change.relation} ({status.name}) may differ from the publisher's since {change.changed_at}"
                    f"\nDETAIL:  {change.reason} {change.difference}\nHINT:  {COPY_AGAIN}"
                )
