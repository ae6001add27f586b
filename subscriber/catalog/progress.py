"""Progress: up to which LSN changes are applied, kept in the target (rules C32-C34; invariant
progress_with_data).

The applied LSN lives beside the data it describes and moves in the same target transaction, by
compare-and-set, so that two runners started by mistake cannot both apply. PostgreSQL keeps the
same fact in ``pg_replication_origin_status``; names and texts are its own.

Whoever reads or moves it goes through a :class:`Progress`: :class:`OriginProgress` is a
subscription's, :class:`~subscriber.catalog.table_states.CatchUpProgress` that of one table which
catches up.

LSNs are stored as text in the one form that :func:`subscriber.lsn.format_lsn` writes: every target
has text, not every target has unsigned 64-bit integers. They are compared for equality only, and
only with text of the same writer; every ordering is of parsed integers (rule A19a).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import sqlalchemy as sa

from subscriber.catalog.own_tables import ORIGIN_STATUS
from subscriber.errors import ProgressConflict
from subscriber.lsn import LSN, format_lsn, parse_lsn


class Progress(Protocol):
    """What has been applied, kept in the target and moved with the data (invariant
    progress_with_data).
    """

    @property
    def name(self) -> str:
        """The replication origin's name, for messages."""

    @property
    def of_subscription(self) -> bool:
        """Whether it is a subscription's, and not one table's.

        Only then are the target's transactions marked with the origin, and may they be prepared
        (rule C52).
        """

    def read(self, connection: sa.Connection) -> LSN:
        """The applied LSN: everything that finished at or below it is in the target.

        Raises:
            ProgressConflict: it is not tracked here (any more).
        """

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """Take the row lock on it and hold it until the transaction ends.

        Raises:
            ProgressConflict: it is not ``expected``: somebody else moved it.
        """

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """Move it in the transaction that holds the data (rule C32).

        Raises:
            ProgressConflict: it is not at ``from_lsn``, or ``to_lsn`` lies below that.
        """


@dataclass(frozen=True, slots=True)
class OriginProgress:
    """The progress of a subscription's apply worker (rule C34).

    Attributes:
        subid: the subscription's number.
    """

    subid: int

    @property
    def name(self) -> str:
        """The replication origin's name: ``pg_16394``."""
        return f"pg_{self.subid}"

    @property
    def of_subscription(self) -> bool:
        """Always."""
        return True

    def create(self, connection: sa.Connection, lsn: LSN) -> None:
        """Begin to track the origin at ``lsn``: nothing at or below it will be applied."""
        connection.execute(sa.insert(ORIGIN_STATUS).values(external_id=self.name, **_moved_to(lsn)))

    def drop(self, connection: sa.Connection) -> None:
        """Forget the origin; forgetting an unknown one is no error."""
        connection.execute(sa.delete(ORIGIN_STATUS).where(self._is_mine()))

    def read(self, connection: sa.Connection) -> LSN:
        """See :meth:`Progress.read`.

        Raises:
            ProgressConflict: 42704, the origin is not tracked here (any more).
        """
        found = self.find(connection)
        if found is None:
            raise ProgressConflict(
                f'replication origin "{self.name}" does not exist',
                sqlstate="42704",
                hint="The subscription was dropped, or the target is not the one it was created in.",
            )
        return found

    def find(self, connection: sa.Connection) -> LSN | None:
        """The applied LSN; None where the origin is not tracked."""
        text = connection.execute(sa.select(ORIGIN_STATUS.c.remote_lsn).where(self._is_mine())).scalar_one_or_none()
        return None if text is None else parse_lsn(text)

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """See :meth:`Progress.lock`.

        Raises:
            ProgressConflict: the progress is not ``expected``: another runner moved it.
        """
        self._compare_and_set(connection, expected, {"remote_lsn": format_lsn(expected)})

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """See :meth:`Progress.advance`.

        Raises:
            ProgressConflict: the progress is not ``from_lsn``, or ``to_lsn`` lies below it.
        """
        if to_lsn < from_lsn:
            raise ProgressConflict(
                f'progress of replication origin "{self.name}" cannot move back'
                f" from {format_lsn(from_lsn)} to {format_lsn(to_lsn)}"
            )
        self._compare_and_set(connection, from_lsn, _moved_to(to_lsn))

    def _compare_and_set(self, connection: sa.Connection, expected: LSN, values: Mapping[str, str]) -> None:
        there = self._is_mine() & (ORIGIN_STATUS.c.remote_lsn == format_lsn(expected))
        if connection.execute(sa.update(ORIGIN_STATUS).where(there).values(**values)).rowcount != 1:
            raise ProgressConflict(
                f'progress of replication origin "{self.name}" is no longer at {format_lsn(expected)}',
                hint="Another `subscriber run` applies to this target. Stop one of them.",
            )

    def _is_mine(self) -> sa.ColumnElement[bool]:
        return ORIGIN_STATUS.c.external_id == self.name


def _moved_to(lsn: LSN) -> dict[str, str]:
    return {"remote_lsn": format_lsn(lsn), "updated_at": datetime.now(UTC).isoformat(timespec="milliseconds")}
