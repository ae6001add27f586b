"""Transactions with SQLAlchemy's own functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import sqlalchemy as sa

from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.transactions import DurabilityWarning
from subscriber.waiting import watched


class GenericTransactions:
    """See :class:`~subscriber.targets.roles.transactions.Transactions`."""

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """See :meth:`Transactions.begin`."""
        sessions: list[int] = []
        with (
            watched(f"a transaction of the target ({self._errors.database})", partial(self._asked, sessions)),
            self._errors.reporting(),
            self.write_engine().begin() as connection,
        ):
            session = self.session_id(connection)
            if session is not None:
                sessions.append(session)
            self.apply_as_replica(connection)
            yield connection

    def _asked(self, sessions: Sequence[int]) -> Sequence[str]:
        return self.waits_for(sessions[0] if sessions else None)

    def session_id(self, connection: sa.Connection) -> int | None:
        """See :meth:`Transactions.session_id`."""
        del connection
        return None

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Transactions.waits_for`."""
        del session
        return ()

    def write_engine(self) -> sa.Engine:
        """See :meth:`Transactions.write_engine`."""
        return self._engine

    def interrupt(self, connection: sa.Connection) -> None:
        """See :meth:`Transactions.interrupt`."""
        del connection  # the driver's function for this is not known

    def apply_as_replica(self, connection: sa.Connection) -> None:
        """See :meth:`Transactions.apply_as_replica`."""
        del connection  # the connection acts as a replica already, as far as is known

    def set_synchronous_commit(self, connection: sa.Connection, value: str) -> None:
        """See :meth:`Transactions.set_synchronous_commit`."""
        del connection, value  # there is only one way to commit

    def limited_lock_waits(self, connection: sa.Connection, seconds: int) -> AbstractContextManager[None]:
        """See :meth:`Transactions.limited_lock_waits`."""
        del connection, seconds  # a file has one writer, for which `begin` waits
        return nullcontext()

    def durability_warnings(self) -> Sequence[DurabilityWarning]:
        """See :meth:`Transactions.durability_warnings`."""
        return ()  # the database's settings are not known

    def interruptible(self, connection: sa.Connection) -> AbstractContextManager[None]:
        """See :meth:`Transactions.interruptible`."""
        del connection
        return nullcontext()
