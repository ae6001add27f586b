"""Errors and conflicts of subscriptions, counted: ``subscriber_stat_subscription_stats``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa

from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.catalog.own_tables import SUBSCRIPTION_REL, SUBSCRIPTION_STATS
from subscriber.catalog.subscriptions import find_subscription
from subscriber.lsn import LSN, format_lsn, parse_lsn


def record_error(
    connection: sa.Connection,
    name: str,
    report: str,
    *,
    worker: Literal["apply", "sync"] = "apply",
    lsn: int | None = None,
) -> None:
    """Store an error for ``subscriber status``: increment its counter, and write its report and the
    time (UTC, ISO 8601).

    Call it in a separate transaction, because the one that failed is rolled back.

    Args:
        connection: to the target.
        name: the subscription's name; if the subscription was dropped meanwhile, nothing is stored.
        report: :meth:`SubscriberError.report`, which contains no values.
        worker: the worker that failed; errors of a table's copy and catch-up are counted
            separately, as in pg_stat_subscription_stats.
        lsn: the finish LSN of the transaction that failed; None where no transaction failed.
    """
    stats = SUBSCRIPTION_STATS
    subscription = find_subscription(connection, name)
    if subscription is None:
        return
    connection.execute(
        sa.update(stats)
        .where(stats.c.subid == subscription.subid)
        .values(
            {
                f"{worker}_error_count": stats.c[f"{worker}_error_count"] + 1,
                "last_error": report,
                "last_error_at": _now(),
                "last_error_worker": worker,
                "last_error_lsn": None if lsn is None else format_lsn(LSN(lsn)),
                "last_error_resolved_at": None,
            }
        )
    )


def resolve_error(connection: sa.Connection, subid: int, *, applied: LSN, waiting: bool) -> bool:
    """Mark the last error as resolved, if it is; returns True if there is no unresolved error.

    An error of a transaction is resolved when the transaction is applied or skipped. Any other
    error of the apply worker is resolved when nothing is left to apply. An error of a table's copy
    is resolved when no table has an error.

    Args:
        connection: to the target.
        subid: the subscription's number.
        applied: the progress.
        waiting: whether received changes are not applied yet.
    """
    stats, tables = SUBSCRIPTION_STATS, SUBSCRIPTION_REL
    row = connection.execute(sa.select(stats).where(stats.c.subid == subid)).one_or_none()
    if row is None or row.last_error is None or row.last_error_resolved_at is not None:
        return True
    if row.last_error_worker == "sync":
        failing = sa.select(tables.c.srrelname).where(tables.c.srsubid == subid, tables.c.srerror.is_not(None))
        is_over = connection.execute(failing.limit(1)).first() is None
    elif row.last_error_lsn is not None:
        is_over = applied >= parse_lsn(row.last_error_lsn)
    else:
        is_over = not waiting
    if is_over:
        same = (stats.c.subid == subid) & (stats.c.last_error_at == row.last_error_at)
        connection.execute(sa.update(stats).where(same).values(last_error_resolved_at=_now()))
    return is_over


def count_conflicts(connection: sa.Connection, subid: int, name: str, counts: Mapping[ConflictKind, int]) -> None:
    """Add to the conflict counters of a subscription; its row is created if there is none.

    Args:
        connection: a connection in the transaction that the counts belong to.
        subid: the subscription's number.
        name: the subscription's name, for a new row.
        counts: the number to add for each kind.
    """
    columns = {f"confl_{kind}": number for kind, number in counts.items() if number}
    if not columns:
        return
    stats = SUBSCRIPTION_STATS
    added = {column: stats.c[column] + number for column, number in columns.items()}
    result = connection.execute(sa.update(stats).where(stats.c.subid == subid).values(**added))
    if result.rowcount == 0:
        connection.execute(sa.insert(stats).values(subid=subid, subname=name, **columns))


def statistics_of(connection: sa.Connection, subid: int) -> dict[str, Any]:
    """The row of ``subscriber_stat_subscription_stats`` by column name; empty if there is none."""
    stats = SUBSCRIPTION_STATS
    row = connection.execute(sa.select(stats).where(stats.c.subid == subid)).mappings().one_or_none()
    return dict(row or {})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
