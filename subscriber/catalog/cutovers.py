"""The cutovers of subscriptions: ``subscriber_cutover``, a row for each subscription.

::

    no row ──claim──▶ running ──▶ switched ──▶ no row, because --finish drops the subscription
       ▲                 │└───────────┴──▶ abandoned ──claim──▶ running …
       └─ left without ──┘
          any effect

The row outlives a command that has changed anything, so that an interrupted cutover is found again.
A command works on it only while it has the lease; another one is refused (55P03).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import sqlalchemy as sa

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.leases import Lease, LeaseKind, claim, find_lease, new_lease, release, renew
from subscriber.catalog.own_tables import CUTOVER, LEASE
from subscriber.catalog.rows import RowMapper, delete_rows, matching

CutoverState = Literal["running", "switched", "abandoned"]

ASKED: Final = "asked"
"""The key of the options, among the options of a row, that were given to the command, as words."""
_CHANGES_NOTHING: Final = {"preconditions", "schema"}
"""The steps before the writes stop."""


@dataclass(frozen=True, slots=True)
class Cutover:
    """A row of ``subscriber_cutover``; times are UTC, ISO 8601.

    ``step`` is the step that was begun last, and ``findings`` what the steps have found. ``lease``
    is that of the command that carries it out, which may be dead. ``options`` has what was asked
    for, and what has to be undone.
    """

    subid: int
    state: CutoverState
    step: str
    started_at: str
    lease: Lease | None = None
    barrier: LSN | None = None
    switched_at: str | None = None
    abandoned_at: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    findings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_held(self) -> bool:
        return self.lease is not None and self.lease.is_alive()

    @property
    def is_mine(self) -> bool:
        return self.lease is not None and self.lease.is_mine

    @property
    def has_effects(self) -> bool:
        """Whether it has changed, or was about to change, more than its own row."""
        found = self.findings.keys() - _CHANGES_NOTHING
        return self.state == "switched" or self.barrier is not None or bool(self.options.keys() - {ASKED} | found)

    @property
    def in_progress(self) -> bool:
        """Whether it is neither finished nor abandoned."""
        return self.state != "abandoned"


_ROWS: Final = RowMapper(
    CUTOVER,
    Cutover,
    started_at="startedat",
    lease=None,
    barrier="barrierlsn",
    switched_at="switchedat",
    abandoned_at="abandonedat",
)


def read_cutover(connection: sa.Connection, subid: int) -> Cutover | None:
    lease, found = find_lease(connection, LeaseKind.CUTOVER, subid), _ROWS.find(connection, subid=subid)
    return None if found is None else replace(found, lease=lease)


def find_cutover(connection: sa.Connection, subid: int) -> Cutover | None:
    """On a connection that only reads; the catalog may be that of an earlier version."""
    tables = sa.inspect(connection)
    if not tables.has_table(CUTOVER.name):
        return None
    return read_cutover(connection, subid) if tables.has_table(LEASE.name) else _ROWS.find(connection, subid=subid)


def claim_cutover(connection: sa.Connection, name: str, subid: int) -> Cutover:
    """Begin or continue a cutover; 55P03 if another command carries it out."""
    lease = new_lease(LeaseKind.CUTOVER, subid)
    try:
        other = claim(connection, lease)
        found = read_cutover(connection, subid)
        if other is not None:
            raise held_cutover(name, found, other)
        fresh = Cutover(subid, "running", "", lease.since, lease)
        if found is None:
            _ROWS.insert(connection, [fresh])
            return fresh
    except sa.exc.IntegrityError:  # its transaction may not be used any more
        raise UsageError(
            f'another command has just begun a cutover of subscription "{name}"',
            sqlstate="55P03",
            hint="Wait until it has ended; `subscriber status` shows it.",
        ) from None
    if found.in_progress:
        return found
    _ROWS.replace(connection, matching(CUTOVER, subid=subid), fresh)
    return fresh


def write_cutover(connection: sa.Connection, cutover: Cutover, name: str) -> None:
    """55P03: another command has taken it over; 55000: the subscription was dropped."""
    assert cutover.lease is not None
    is_mine = renew(connection, cutover.lease)
    if not is_mine or _ROWS.replace(connection, matching(CUTOVER, subid=cutover.subid), cutover) != 1:
        found = read_cutover(connection, cutover.subid)
        raise held_cutover(name, found, None if found is None else found.lease)


def leave_cutover(connection: sa.Connection, cutover: Cutover) -> None:
    """Release the lease, so that another command can go on; forget a cutover without effects."""
    assert cutover.lease is not None
    if not release(connection, cutover.lease):
        return
    found = read_cutover(connection, cutover.subid)
    if found is not None and found.state == "running" and not found.has_effects:
        delete_rows(connection, CUTOVER, subid=cutover.subid)


def held_cutover(name: str, found: Cutover | None, holder: Lease | None) -> UsageError:
    if found is None:
        return UsageError(
            f'the cutover of subscription "{name}" is gone',
            sqlstate="55000",
            hint="The subscription was dropped meanwhile. `subscriber status` lists the subscriptions.",
        )
    who = "another process" if holder is None else holder.holder_in_words
    return UsageError(
        f'another command carries out a cutover of subscription "{name}"',
        sqlstate="55P03",
        detail=f"It is {who}, in step {found.step or 'preconditions'}, begun at {found.started_at}.",
        hint="Wait until it has ended. If its process was killed on another host, try again in half a minute.",
    )
