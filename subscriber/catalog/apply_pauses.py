"""Pauses of the apply: how a command and `subscriber run` talk to each other about one.

A pause is a lease, claimed and renewed by the command; :mod:`subscriber.commands.hold_apply` has
the protocol. Each write returns whether the lease was still there.
"""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa

from subscriber.base.lsn import LSN
from subscriber.catalog.leases import Lease, is_of
from subscriber.catalog.own_tables import LEASE
from subscriber.catalog.rows import change_rows


class PauseState(StrEnum):
    REQUESTED = "requested"
    """The run has not answered yet: a batch may be in progress."""
    PAUSED = "paused"
    """No batch is in progress, and none begins that would go beyond the bound."""
    HELD = "held"
    """Everything up to the bound is applied, and nothing else."""


def acknowledge_pause(connection: sa.Connection, pause: Lease) -> bool:
    """Say that no batch is in progress, and that none begins."""
    requested = is_of(pause) & (LEASE.c.state == PauseState.REQUESTED.value)
    return change_rows(connection, requested, LEASE, state=PauseState.PAUSED.value) == 1


def bind_pause(connection: sa.Connection, pause: Lease, lsn: LSN) -> bool:
    """Let the run apply up to ``lsn``. The run has acknowledged that it is paused."""
    paused = is_of(pause) & (LEASE.c.state == PauseState.PAUSED.value)
    return change_rows(connection, paused, LEASE, boundlsn=lsn) == 1


def acknowledge_bound(connection: sa.Connection, pause: Lease, lsn: LSN) -> bool:
    """Say that everything up to the bound ``lsn`` is applied, and nothing else."""
    bound = is_of(pause) & (LEASE.c.state == PauseState.PAUSED.value) & (LEASE.c.boundlsn == lsn)
    return change_rows(connection, bound, LEASE, state=PauseState.HELD.value, reachedlsn=lsn) == 1
