"""The last `subscriber run` of the target: ``subscriber_runner``, one row that it writes every few
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from subscriber.catalog.own_tables import RUNNER

_ROW = 1


@dataclass(frozen=True, slots=True)
class Runner:
    """What is known of the last `subscriber run` of a target; times are UTC, ISO 8601.

    Attributes:
        host: the name of the machine it was started on.
        process_id: its process there.
        started_at: when.
        heartbeat_at: when it last wrote this.
        busy_since: since when a batch or a copy was in progress then; None where none was.
        ended_at: when it ended in order; None while it runs, and where it was killed.
    """

    host: str
    process_id: int
    started_at: str
    heartbeat_at: str
    busy_since: str | None = None
    ended_at: str | None = None

    @property
    def heartbeat_age(self) -> float:
        """Seconds since it last wrote this."""
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(self.heartbeat_at)).total_seconds())


def write_runner(connection: sa.Connection, runner: Runner) -> None:
    """Keep it in place of what was there."""
    values = {
        "host": runner.host,
        "processid": runner.process_id,
        "startedat": runner.started_at,
        "heartbeatat": runner.heartbeat_at,
        "busysince": runner.busy_since,
        "endedat": runner.ended_at,
    }
    written = connection.execute(sa.update(RUNNER).where(RUNNER.c.runnerid == _ROW).values(**values))
    if written.rowcount == 0:
        connection.execute(sa.insert(RUNNER).values(runnerid=_ROW, **values))


def read_runner(connection: sa.Connection) -> Runner | None:
    """The last run; None where there has been none, or only one of an earlier version."""
    row = connection.execute(sa.select(RUNNER)).one_or_none()
    if row is None:
        return None
    return Runner(row.host, row.processid, row.startedat, row.heartbeatat, row.busysince, row.endedat)
