"""What the workers of `subscriber run` do: ``subscriber_stat_subscription``, named after
pg_stat_subscription.

`subscriber run` writes a row when it has changed (:mod:`subscriber.runtime.heartbeat`), so that
``subscriber status`` shows it in another process. The rows of a run that has ended stay: a worker
that had stopped then has a reason that is still of interest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from subscriber.catalog.own_tables import STAT_SUBSCRIPTION


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What the worker of one subscription does. Times are UTC, ISO 8601.

    Attributes:
        subid: the number of the subscription.
        state: starting, copying, streaming, retrying or stopped.
        since: since when it is in this state.
        error: the report of the error because of which it retries or has stopped; else None.
        attempts: how many attempts in a row have failed.
        next_attempt: when the next attempt begins; None if none is planned.
        server: host, port and version of the server that is streamed from; None while none is.
        notices: the number of notices and warnings of the publisher since the worker began.
    """

    subid: int
    state: str
    since: str
    error: str | None = None
    attempts: int = 0
    next_attempt: str | None = None
    server: str | None = None
    notices: int = 0


def write_worker_statuses(connection: sa.Connection, statuses: Iterable[WorkerStatus]) -> None:
    """Replace the stored rows of these workers."""
    for status in statuses:
        values = asdict(status)
        written = connection.execute(
            sa.update(STAT_SUBSCRIPTION).where(STAT_SUBSCRIPTION.c.subid == status.subid).values(**values)
        )
        if written.rowcount == 0:
            connection.execute(sa.insert(STAT_SUBSCRIPTION).values(**values))


def read_worker_statuses(connection: sa.Connection) -> Mapping[int, WorkerStatus]:
    """The workers of the last run, by the number of their subscription."""
    return {row.subid: WorkerStatus(**row._mapping) for row in connection.execute(sa.select(STAT_SUBSCRIPTION))}


def forget_worker_status(connection: sa.Connection, subid: int) -> None:
    """Delete the row of a subscription that is dropped."""
    connection.execute(sa.delete(STAT_SUBSCRIPTION).where(STAT_SUBSCRIPTION.c.subid == subid))
