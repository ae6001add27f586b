"""Holds of the apply: ``subscriber_apply_hold``, at most one row for each subscription.

::

    command   ── insert ──▶ requested ───────────────▶ bound := L ──────────────▶ read the target ── delete
    run                         └── no batch runs ──▶ paused └── L is reached ──▶ held

The row is how a command and `subscriber run` talk to each other
(:mod:`subscriber.commands.hold_apply` has the protocol). The command writes the row, the bound and
the heartbeats. The run writes the state and what was reached. Each write names the holder, so that
nobody changes the row of a later hold, and returns whether the row was still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

from subscriber.catalog.own_tables import APPLY_HOLD
from subscriber.lsn import LSN, format_lsn, parse_lsn


class HoldState(StrEnum):
    """How far the run has followed a request to hold the apply."""

    REQUESTED = "requested"
    """The run has not answered yet: a batch may be in progress."""
    PAUSED = "paused"
    """No batch is in progress, and none begins that would go beyond the bound."""
    HELD = "held"
    """Everything up to the bound is applied, and nothing else."""


@dataclass(frozen=True, slots=True)
class ApplyHold:
    """A row of ``subscriber_apply_hold``.

    Attributes:
        subid: the number of the subscription.
        holder: identifies the hold, by chance.
        host: the machine of the command that holds.
        process_id: the number of its process on this machine.
        since: when it was requested (UTC, ISO 8601).
        heartbeat: changes as long as the command is alive; the time of its last renewal.
        state: how far the run has followed it.
        bound: the LSN up to which the run applies; None while it is not known.
        reached: the LSN that the target was held at; None in the other states.
    """

    subid: int
    holder: str
    host: str
    process_id: int
    since: str
    heartbeat: str
    state: HoldState = HoldState.REQUESTED
    bound: LSN | None = None
    reached: LSN | None = None

    @property
    def holder_in_words(self) -> str:
        """Who holds the apply, for messages."""
        return f"process {self.process_id} on host {self.host}"


def insert_hold(connection: sa.Connection, hold: ApplyHold) -> None:
    """Store a new hold.

    Raises:
        sqlalchemy.exc.IntegrityError: the subscription has one already.
    """
    connection.execute(
        sa.insert(APPLY_HOLD).values(
            subid=hold.subid,
            holder=hold.holder,
            host=hold.host,
            processid=hold.process_id,
            heldsince=hold.since,
            heartbeatat=hold.heartbeat,
            state=hold.state.value,
            boundlsn=_text(hold.bound),
            reachedlsn=_text(hold.reached),
        )
    )


def read_holds(connection: sa.Connection) -> dict[int, ApplyHold]:
    """All holds of the target, by the number of the subscription."""
    return {row.subid: _hold(row) for row in connection.execute(sa.select(APPLY_HOLD))}


def find_hold(connection: sa.Connection, subid: int) -> ApplyHold | None:
    """The hold of a subscription, or None."""
    row = connection.execute(sa.select(APPLY_HOLD).where(APPLY_HOLD.c.subid == subid)).one_or_none()
    return None if row is None else _hold(row)


def renew_hold(connection: sa.Connection, hold: ApplyHold, heartbeat: str) -> bool:
    """Store another heartbeat of the holder."""
    return _update(connection, _is(hold), heartbeatat=heartbeat)


def bind_hold(connection: sa.Connection, hold: ApplyHold, lsn: LSN) -> bool:
    """Let the run apply up to ``lsn``. The run has acknowledged that it is paused."""
    paused = _is(hold) & (APPLY_HOLD.c.state == HoldState.PAUSED.value)
    return _update(connection, paused, boundlsn=format_lsn(lsn))


def note_paused(connection: sa.Connection, hold: ApplyHold) -> bool:
    """Acknowledge that no batch is in progress, and that none begins."""
    requested = _is(hold) & (APPLY_HOLD.c.state == HoldState.REQUESTED.value)
    return _update(connection, requested, state=HoldState.PAUSED.value)


def note_reached(connection: sa.Connection, hold: ApplyHold, lsn: LSN) -> bool:
    """Acknowledge that everything up to the bound ``lsn`` is applied, and nothing else."""
    bound = _is(hold) & (APPLY_HOLD.c.state == HoldState.PAUSED.value) & (APPLY_HOLD.c.boundlsn == format_lsn(lsn))
    return _update(connection, bound, state=HoldState.HELD.value, reachedlsn=format_lsn(lsn))


def delete_hold(connection: sa.Connection, hold: ApplyHold) -> bool:
    """Delete a hold at its end."""
    return connection.execute(sa.delete(APPLY_HOLD).where(_is(hold))).rowcount == 1


def delete_stale_hold(connection: sa.Connection, hold: ApplyHold) -> bool:
    """Delete a hold, unless its holder has renewed it since ``hold`` was read."""
    stale = _is(hold) & (APPLY_HOLD.c.heartbeatat == hold.heartbeat)
    return connection.execute(sa.delete(APPLY_HOLD).where(stale)).rowcount == 1


def forget_holds(connection: sa.Connection, subid: int) -> None:
    """Delete the hold of a subscription that is dropped."""
    connection.execute(sa.delete(APPLY_HOLD).where(APPLY_HOLD.c.subid == subid))


def _update(connection: sa.Connection, where: sa.ColumnElement[bool], **values: str) -> bool:
    return connection.execute(sa.update(APPLY_HOLD).where(where).values(**values)).rowcount == 1


def _is(hold: ApplyHold) -> sa.ColumnElement[bool]:
    return (APPLY_HOLD.c.subid == hold.subid) & (APPLY_HOLD.c.holder == hold.holder)


def _hold(row: sa.Row[tuple[object, ...]]) -> ApplyHold:
    return ApplyHold(
        row.subid,
        row.holder,
        row.host,
        row.processid,
        row.heldsince,
        row.heartbeatat,
        HoldState(row.state),
        None if row.boundlsn is None else parse_lsn(row.boundlsn),
        None if row.reachedlsn is None else parse_lsn(row.reachedlsn),
    )


def _text(lsn: LSN | None) -> str | None:
    return None if lsn is None else format_lsn(lsn)
