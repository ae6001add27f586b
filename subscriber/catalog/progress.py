"""Progress: the LSN up to which changes are applied, stored in the target (rules C32-C34; invariant
progress_with_data).

The applied LSN is stored beside the data that it describes, and moves in the same transaction of
the target. It is moved by compare-and-set, so that two runners that were started by mistake cannot
both apply. PostgreSQL stores the same information in ``pg_replication_origin_status``; names and
texts are PostgreSQL's.

All code reads and moves it through a :class:`Progress`. :class:`OriginProgress` is the progress of
a subscription, :class:`~subscriber.catalog.table_states.CatchUpProgress` that of a table during
catch-up.

LSNs are stored as text in the form that :func:`subscriber.lsn.format_lsn` writes, because every
target has text, but not every target has unsigned 64-bit integers. The texts are compared for
equality only, and only with texts of the same form. Comparisons of order always use parsed integers
(rule A19a).
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
    """The applied LSN in the target, moved with the data (invariant progress_with_data)."""

    @property
    def name(self) -> str:
        """The replication origin's name, for messages."""

    @property
    def of_subscription(self) -> bool:
        """Whether this is the progress of a subscription, and not that of a single table.

        The target's transactions are marked with the origin, and may be prepared, only if it is
        True (rule C52).
        """

    def read(self, connection: sa.Connection) -> LSN:
        """The applied LSN: everything that finished at or before it is in the target.

        Raises:
            ProgressConflict: the target does not track this progress, or no longer does.
        """

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """Lock the row of the progress until the transaction ends.

        Raises:
            ProgressConflict: the progress is not ``expected``: another session moved it.
        """

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """Move the progress, in the transaction of the data (rule C32).

        Raises:
            ProgressConflict: the progress is not ``from_lsn``, or ``to_lsn`` is before it.
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
        """Always True."""
        return True

    def create(self, connection: sa.Connection, lsn: LSN) -> None:
        """Begin to track the origin at ``lsn``: nothing at or before it will be applied."""
        connection.execute(sa.insert(ORIGIN_STATUS).values(external_id=self.name, **_moved_to(lsn)))

    def drop(self, connection: sa.Connection) -> None:
        """Delete the origin's row; it is no error if there is none."""
        connection.execute(sa.delete(ORIGIN_STATUS).where(self._is_mine()))

    def read(self, connection: sa.Connection) -> LSN:
        """See :meth:`Progress.read`.

        Raises:
            ProgressConflict: 42704, the target does not track the origin, or no longer does.
        """
        found = self.find(connection)
        if found is None:
            raise ProgressConflict(
                f'replication origin "{self.name}" does not exist',
                sqlstate="42704",
                hint="The subscription was dropped, or it was created in another target.",
            )
        return found

    def find(self, connection: sa.Connection) -> LSN | None:
        """The applied LSN; None where the origin is not tracked."""
        text = connection.execute(sa.select(ORIGIN_STATUS.c.remote_lsn).where(self._is_mine())).scalar_one_or_none()
        return None if text is None else parse_lsn(text)

    def lock(self, connection: sa.Connection, expected: LSN) -> None:
        """See :meth:`Progress.lock`.

        Raises:
            ProgressConflict: the progress is not ``expected``: another run moved it.
        """
        self._compare_and_set(connection, expected, {"remote_lsn": format_lsn(expected)})

    def advance(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """See :meth:`Progress.advance`.

        Raises:
            ProgressConflict: the progress is not ``from_lsn``, or ``to_lsn`` is before it.
        """
        if to_lsn < from_lsn:
            raise ProgressConflict(
                f'progress of replication origin "{self.name}" cannot move back'
                f" from {format_lsn(from_lsn)} to {format_lsn(to_lsn)}"
            )
        self._compare_and_set(connection, from_lsn, _moved_to(to_lsn))

    def restart(self, connection: sa.Connection, from_lsn: LSN, to_lsn: LSN) -> None:
        """Move the progress to where a new slot begins, also backwards: the publisher may have been
        restored to an older state.

        All tables must be copied again from a later snapshot.

        Raises:
            ProgressConflict: the progress is not ``from_lsn``.
        """
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
