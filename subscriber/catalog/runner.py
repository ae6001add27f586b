"""The last `subscriber run` of the target: ``subscriber_runner``, a single row.

The run writes the row every few seconds. On a target whose other connections cannot write during a
batch, the run writes it only between batches (:mod:`subscriber.runtime.heartbeat`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa

from subscriber.catalog.own_tables import RUNNER
from subscriber.targets import Target

_ROW = 1

STALE_SECONDS: Final = 15.0
"""A run whose last heartbeat is older is considered dead, if nothing but its heartbeat is
available. A run writes one every five seconds.
"""
_SILENT_SECONDS: Final = 60.0
_BUSY_SILENT_SECONDS: Final = 300.0
"""A run that is alive and whose last heartbeat is older may hang. Where no heartbeat is written
during a batch, it may also be busy with a long one.
"""


@dataclass(frozen=True, slots=True)
class Runner:
    """The last `subscriber run` of a target; times are UTC, ISO 8601.

    Attributes:
        host: the name of the machine that it was started on.
        process_id: its process ID on that machine.
        started_at: when it was started.
        heartbeat_at: when it last wrote this row.
        busy_since: since when a batch or a copy was in progress at that time; None where none was.
        ended_at: when it ended normally; None while it runs, or if it was killed.
    """

    host: str
    process_id: int
    started_at: str
    heartbeat_at: str
    busy_since: str | None = None
    ended_at: str | None = None

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the row was last written."""
        return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(self.heartbeat_at)).total_seconds())


def is_alive(runner: Runner, locked: bool | None) -> bool:
    """Return whether a run is alive.

    Args:
        runner: the run with its last heartbeat.
        locked: the result of :meth:`RunLock.is_held`; None if it is not known.
    """
    return locked if locked is not None else runner.ended_at is None and runner.heartbeat_age <= STALE_SECONDS


def is_silent(runner: Runner, *, may_be_busy: bool) -> bool:
    """Return whether a run that is alive may hang.

    Args:
        runner: the run with its last heartbeat.
        may_be_busy: whether no heartbeat is written during a batch or a copy.
    """
    return runner.heartbeat_age > (_BUSY_SILENT_SECONDS if may_be_busy else _SILENT_SECONDS)


def pauses_while_busy(target: Target) -> bool:
    """Return whether no heartbeat can be written while a batch or a copy is in progress."""
    return target.capabilities.single_writer or target.status_file is not None


def write_runner(connection: sa.Connection, runner: Runner) -> None:
    """Replace the stored runner."""
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
    """The last run; None if there was no run, or only runs of an earlier version."""
    row = connection.execute(sa.select(RUNNER)).one_or_none()
    if row is None:
        return None
    return Runner(row.host, row.processid, row.startedat, row.heartbeatat, row.busysince, row.endedat)
