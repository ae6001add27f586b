"""What went wrong, counted and kept: ``subscriber_stat_subscription_stats``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa

from subscriber.apply.progress import SUBSCRIPTION_STATS
from subscriber.subscription.catalog.subscriptions import find_subscription


def record_error(
    connection: sa.Connection, name: str, report: str, *, worker: Literal["apply", "sync"] = "apply"
) -> None:
    """Keep an error for ``subscriber status``: counted, with its report and the time (UTC, ISO 8601).

    Call it in a transaction of its own: the one that failed is rolled back.

    Args:
        connection: to the target.
        name: the subscription's; one that was dropped meanwhile is left alone.
        report: :meth:`SubscriberError.report`, which holds no values.
        worker: who met it; a table's copy and catch-up are counted apart, as in pg_stat_subscription_stats.
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
                "last_error_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            }
        )
    )


def statistics_of(connection: sa.Connection, subid: int) -> dict[str, Any]:
    """The row of ``subscriber_stat_subscription_stats``, by column name; empty when there is none."""
    stats = SUBSCRIPTION_STATS
    row = connection.execute(sa.select(stats).where(stats.c.subid == subid)).mappings().one_or_none()
    return dict(row or {})
