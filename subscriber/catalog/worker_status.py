"""What the workers of `subscriber run` do: ``subscriber_stat_subscription``, named after
pg_stat_subscription. `subscriber run` writes a row when it has changed
(:mod:`subscriber.worker.heartbeat`). The rows of a run that has ended stay: they say why a worker
had stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from subscriber.catalog.counters import WorkerCounters
from subscriber.catalog.own_tables import STAT_SUBSCRIPTION
from subscriber.catalog.rows import RowMapper


@dataclass(frozen=True, slots=True)
class WorkerStatus(WorkerCounters):
    """What the worker of one subscription does, and what it has counted. Times are UTC, ISO 8601.
    ``state`` is starting, copying, streaming, retrying or stopped, and ``error`` the report that
    says why.
    """

    subid: int
    state: str
    since: str
    error: str | None = None
    attempts: int = 0
    next_attempt: str | None = None
    server: str | None = None


_ROWS = RowMapper(STAT_SUBSCRIPTION, WorkerStatus)


def write_worker_statuses(connection: sa.Connection, statuses: Iterable[WorkerStatus]) -> None:
    for status in statuses:
        _ROWS.write(connection, status)


def read_worker_statuses(connection: sa.Connection) -> Mapping[int, WorkerStatus]:
    return {status.subid: status for status in _ROWS.select(connection)}
