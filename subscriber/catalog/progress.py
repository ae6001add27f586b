"""Progress: the LSN up to which changes are applied, stored in the target (rules C32-C34; invariant
progress_with_data).

It moves in the transaction of the data that it describes, by compare-and-set, so that two runners
that were started by mistake cannot both apply. PostgreSQL's equivalent is
``pg_replication_origin_status``. Statements compare LSNs for equality only; comparisons of order
use parsed integers (rule A19a).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import sqlalchemy as sa

from subscriber.base import clock
from subscriber.base.errors import ProgressConflict
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.own_tables import ORIGIN_STATUS


class Progress(Protocol):
    """The applied LSN in the target, moved with the data (invariant progress_with_data).

    Each method raises ProgressConflict if the progress is not the expected one, because another
    session has moved it, or is no longer tracked.
    """

    @property
    def name(self) -> str:
        """The replication origin's name, for messages."""

    @property
    def of_subscription(self) -> bool:
        """Whether this is a subscription's progress, and not a table's. Only then are transactions
        of the target marked with the origin, and may be prepared (rule C52).
        """

    def read(self, connection: sa.Connection) -> LSN:
        """The applied LSN: everything that finished at or before it is in the target."""

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """Lock the row of the progress until the transaction ends."""

    def begin(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> bool:
        """:meth:`advance` the progress, which locks it too, if it is ``from_lsn``; whether it was.
        A batch begins so: without waiting for the answer to a :meth:`read`.
        """

    def restart(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """Move the progress, also backwards."""

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """Move the progress, in the transaction of the data and never backwards (rule C32)."""


@dataclass(frozen=True, slots=True)
class OriginProgress:
    """The progress of a subscription's apply worker (rule C34). Untracked origins raise 42704."""

    subid: int

    @property
    def name(self) -> str:
        """``pg_16394``."""
        return f"pg_{self.subid}"

    @property
    def of_subscription(self) -> bool:
        return True

    def create(self, connection: sa.Connection, lsn: LSN) -> None:
        """Begin to track the origin at ``lsn``: nothing at or before it will be applied."""
        connection.execute(
            sa.insert(ORIGIN_STATUS).values(external_id=self.name, remote_lsn=lsn, updated_at=clock.now())
        )

    def drop(self, connection: sa.Connection) -> None:
        connection.execute(sa.delete(ORIGIN_STATUS).where(self._is_mine()))

    def read(self, connection: sa.Connection) -> LSN:
        found = self.find(connection)
        if found is None:
            raise ProgressConflict(
                f'replication origin "{self.name}" does not exist',
                sqlstate="42704",
                hint="The subscription was dropped, or it was created in another target.",
            )
        return found

    def find(self, connection: sa.Connection) -> LSN | None:
        """The applied LSN; None if the origin is not tracked."""
        lsn: LSN | None = connection.execute(_READ, {"origin": self.name}).scalar_one_or_none()
        return lsn

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        self._check(expected, moved=self.begin(connection, expected, expected))

    def begin(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> bool:
        move = {"origin": self.name, "expected": from_lsn, "moved_to": to_lsn, "moved_at": clock.now()}
        return connection.execute(_MOVE if from_lsn != to_lsn else _LOCK, move).rowcount == 1

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        if to_lsn < from_lsn:
            raise ProgressConflict(
                f'progress of replication origin "{self.name}" cannot move back'
                f" from {format_lsn(from_lsn)} to {format_lsn(to_lsn)}"
            )
        self.restart(connection, from_lsn, to_lsn)

    def restart(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """Move the progress to where a new slot begins, also backwards: the publisher may have been
        restored to an older state. All tables must be copied again from a later snapshot.
        """
        self._check(from_lsn, moved=self.begin(connection, from_lsn, to_lsn))

    def _check(self, expected: LSN, *, moved: bool) -> None:
        if not moved:
            raise ProgressConflict(
                f'progress of replication origin "{self.name}" is no longer at {format_lsn(expected)}',
                hint="Another `subscriber run` applies to this target. Stop one of them.",
            )

    def _is_mine(self) -> sa.ColumnElement[bool]:
        return ORIGIN_STATUS.c.external_id == self.name


# Every batch executes these, so they are built once.
_MINE: Final = ORIGIN_STATUS.c.external_id == sa.bindparam("origin")
_READ: Final = sa.select(ORIGIN_STATUS.c.remote_lsn).where(_MINE)
_LOCK: Final = (
    sa.update(ORIGIN_STATUS)
    .where(_MINE & (ORIGIN_STATUS.c.remote_lsn == sa.bindparam("expected")))
    .values(remote_lsn=sa.bindparam("moved_to"))
)
_MOVE: Final = _LOCK.values(updated_at=sa.bindparam("moved_at"))
