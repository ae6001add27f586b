"""The cutovers of subscriptions: ``subscriber_cutover``, a row for each subscription.

::

    no row ──claim──▶ running ──▶ switched ──▶ no row, because --finish drops the subscription
       ▲                 │└───────────┴──▶ abandoned ──claim──▶ running …
       └─ left without ──┘
          any effect

The row outlives the command, unless that has changed nothing: an interrupted cutover is found
again by it. A command works on the row only while it is its *holder*. Another command that comes
meanwhile is refused (55P03). A holder that has ended without giving the row back loses it: on the
same machine its process no longer exists, or is younger than its heartbeat; on another machine its
heartbeat is too old.

*Rejected:* a lock of the database. Only servers have one that survives several transactions, and
the row is needed anyway.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import sqlalchemy as sa

from subscriber.catalog.own_tables import CUTOVER
from subscriber.errors import UsageError
from subscriber.lsn import LSN, format_lsn, parse_lsn

CutoverState = Literal["running", "switched", "abandoned"]

ASKED: Final = "asked"
"""The key of the options, among the options of a row, that were given to the command, as words."""
_PRECONDITIONS: Final = "preconditions"
_CLOCK_SECONDS: Final = 2.0
"""The precision of the time at which the machine was booted, which is in whole seconds."""

STALE_SECONDS: Final = 30.0
"""The age of the heartbeat of a holder on another machine from which on it is taken for dead."""


@dataclass(frozen=True, slots=True)
class Cutover:
    """A row of ``subscriber_cutover``; times are UTC, ISO 8601.

    Attributes:
        subid: the subscription's number.
        state: running, switched or abandoned.
        step: the step that was begun last.
        holder: the identifier of the command that carries it out; empty if there is none.
        host: the machine of that command.
        process_id: its process there.
        started_at: when the cutover was begun.
        heartbeat_at: when the holder last wrote the row.
        barrier: the end of the barrier that the target had; None before.
        switched_at: when the subscription was disabled.
        abandoned_at: when the state before was restored.
        options: what was asked for, and what has to be undone.
        findings: what the steps have found, by step.
    """

    subid: int
    state: CutoverState
    step: str
    holder: str
    host: str
    process_id: int
    started_at: str
    heartbeat_at: str
    barrier: LSN | None = None
    switched_at: str | None = None
    abandoned_at: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_held(self) -> bool:
        """Whether a living command carries it out."""
        if not self.holder:
            return False
        if self.host == socket.gethostname():
            return _exists(self.process_id) and not _is_younger(self.process_id, self.heartbeat_at)
        age = datetime.now(UTC) - datetime.fromisoformat(self.heartbeat_at)
        return age.total_seconds() < STALE_SECONDS

    @property
    def is_mine(self) -> bool:
        """Whether this process carries it out."""
        return bool(self.holder) and (self.host, self.process_id) == (socket.gethostname(), os.getpid())

    @property
    def has_effects(self) -> bool:
        """Whether it has changed, or was about to change, more than its own row: a fence, a barrier
        in the target, sequences, a way back, the subscription.
        """
        found = self.findings.keys() - {_PRECONDITIONS}
        return self.state == "switched" or self.barrier is not None or bool(self.options.keys() - {ASKED} | found)

    @property
    def in_progress(self) -> bool:
        """Whether it is neither finished nor abandoned."""
        return self.state != "abandoned"


def now() -> str:
    """The time as the catalog stores it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_cutover(connection: sa.Connection, subid: int) -> Cutover | None:
    """The cutover of a subscription; None if there was none."""
    row = connection.execute(sa.select(CUTOVER).where(CUTOVER.c.subid == subid)).one_or_none()
    if row is None:
        return None
    return Cutover(
        subid=row.subid,
        state=row.state,
        step=row.step,
        holder=row.holder,
        host=row.host,
        process_id=row.processid,
        started_at=row.startedat,
        heartbeat_at=row.heartbeatat,
        barrier=None if row.barrierlsn is None else parse_lsn(row.barrierlsn),
        switched_at=row.switchedat,
        abandoned_at=row.abandonedat,
        options=json.loads(row.options),
        findings=json.loads(row.findings),
    )


def find_cutover(connection: sa.Connection, subid: int) -> Cutover | None:
    """The cutover of a subscription; None also if the catalog is one of an earlier version.

    Args:
        connection: a connection that only reads.
        subid: the subscription's number.
    """
    return read_cutover(connection, subid) if sa.inspect(connection).has_table(CUTOVER.name) else None


def claim_cutover(connection: sa.Connection, name: str, subid: int, holder: str) -> Cutover:
    """Become the holder of a subscription's cutover; begin one if there is none in progress.

    Args:
        connection: to the target, in a transaction.
        name: the subscription's name, for messages.
        subid: its number.
        holder: the new identifier of this command.

    Raises:
        UsageError: 55P03, another command carries out a cutover of this subscription.
    """
    found = read_cutover(connection, subid)
    if found is not None and found.is_held:
        raise held_cutover(name, found)
    moment = now()
    mine = {"holder": holder, "host": socket.gethostname(), "processid": os.getpid(), "heartbeatat": moment}
    fresh = {
        **mine,
        "state": "running",
        "step": "",
        "startedat": moment,
        "barrierlsn": None,
        "switchedat": None,
        "abandonedat": None,
        "options": "{}",
        "findings": "{}",
    }
    if found is None:
        try:
            connection.execute(sa.insert(CUTOVER).values(subid=subid, **fresh))
        except sa.exc.IntegrityError:  # its transaction may not be used any more
            raise UsageError(
                f'another command has just begun a cutover of subscription "{name}"',
                sqlstate="55P03",
                hint="Wait until it has ended; `subscriber status` shows it.",
            ) from None
    else:
        values = mine if found.in_progress else fresh
        unchanged = (CUTOVER.c.subid == subid) & (CUTOVER.c.holder == found.holder)
        if connection.execute(sa.update(CUTOVER).where(unchanged).values(**values)).rowcount != 1:
            raise held_cutover(name, read_cutover(connection, subid))
    claimed = read_cutover(connection, subid)
    assert claimed is not None
    return claimed


def write_cutover(connection: sa.Connection, cutover: Cutover, name: str) -> None:
    """Store what has changed in a cutover that this command holds.

    Raises:
        UsageError: 55P03, another command has taken it over, or the subscription was dropped.
    """
    values = {
        "state": cutover.state,
        "step": cutover.step,
        "heartbeatat": now(),
        "barrierlsn": None if cutover.barrier is None else format_lsn(cutover.barrier),
        "switchedat": cutover.switched_at,
        "abandonedat": cutover.abandoned_at,
        "options": json.dumps(cutover.options),
        "findings": json.dumps(cutover.findings),
    }
    if connection.execute(sa.update(CUTOVER).where(_mine(cutover)).values(**values)).rowcount != 1:
        raise held_cutover(name, read_cutover(connection, cutover.subid))


def beat_cutover(connection: sa.Connection, cutover: Cutover) -> None:
    """Write a heartbeat; nothing is written if this command no longer holds the cutover."""
    connection.execute(sa.update(CUTOVER).where(_mine(cutover)).values(heartbeatat=now()))


def leave_cutover(connection: sa.Connection, cutover: Cutover) -> None:
    """Give the cutover back, so that another command can go on with it. One that has changed
    nothing is forgotten.
    """
    found = read_cutover(connection, cutover.subid)
    if found is not None and found.state == "running" and not found.has_effects:
        connection.execute(sa.delete(CUTOVER).where(_mine(cutover)))
    else:
        connection.execute(sa.update(CUTOVER).where(_mine(cutover)).values(holder="", heartbeatat=now()))


def _mine(cutover: Cutover) -> sa.ColumnElement[bool]:
    return (CUTOVER.c.subid == cutover.subid) & (CUTOVER.c.holder == cutover.holder)


def held_cutover(name: str, found: Cutover | None) -> UsageError:
    """The error for a cutover that another command carries out, or that is gone."""
    if found is None:
        return UsageError(
            f'the cutover of subscription "{name}" is gone',
            sqlstate="55000",
            hint="The subscription was dropped meanwhile. `subscriber status` lists the subscriptions.",
        )
    return UsageError(
        f'another command carries out a cutover of subscription "{name}"',
        sqlstate="55P03",
        detail=f"It is process {found.process_id} on host {found.host}, in step {found.step or 'preconditions'}, begun"
        f" at {found.started_at}.",
        hint="Wait until it has ended. If its process was killed on another host, try again in half a minute.",
    )


def _is_younger(process: int, moment: str) -> bool:
    """Whether a process began after a time, so that it only has the number of one that has ended,
    before a restart of the machine or container. False where that cannot be known.
    """
    try:
        began = float(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        return False
    seconds = float(booted.split()[1]) + began / os.sysconf("SC_CLK_TCK")
    return seconds > datetime.fromisoformat(moment).timestamp() + _CLOCK_SECONDS


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
