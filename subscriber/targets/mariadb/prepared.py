"""Prepared transactions of MariaDB: XA's, named as PostgreSQL's with the database as second
part.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import (
    ApplyError,
    SubscriberError,
)
from subscriber.targets.mariadb.transactions import MariaDBTransactions
from subscriber.targets.roles.errors import Errors

_XID_BYTES: Final = 64
"""What a part of an XA name may be long."""
_DETACH_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01


class MariaDBPrepared:
    """See :class:`~subscriber.targets.roles.prepared.Prepared`; they outlive their session (MariaDB
    10.5).
    """

    def __init__(self, engine: sa.Engine, errors: Errors, transactions: MariaDBTransactions, database: str) -> None:
        self._engine = engine
        self._errors = errors
        self._transactions = transactions
        self._database = database

    @contextmanager
    def begin(self, gid: str) -> Iterator[sa.Connection]:
        """See :meth:`Prepared.begin`; XA START to XA PREPARE.

        READ COMMITTED, so that it keeps locks on the rows that it changes and on no gap between
        them: until it is finished, the changes that the publisher made beside it must get by.
        """
        with self._transactions.renewing_sessions(), self._errors.reporting(), self._engine.connect() as connection:
            xid = self._xid(gid)
            try:
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                connection.exec_driver_sql(f"XA START {xid}")
                try:
                    self._transactions.apply_as_replica(connection)
                    yield connection
                    connection.exec_driver_sql(f"XA END {xid}")
                    connection.exec_driver_sql(f"XA PREPARE {xid}")
                except BaseException:
                    _roll_back(connection, xid)
                    raise
            except exc.DBAPIError as error:
                raise self._explain(error, gid) from None
            finally:
                # The session can do nothing else before the transaction is finished, which is left
                # to another.
                connection.invalidate()

    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """See :meth:`Prepared.finish`; XA COMMIT, XA ROLLBACK."""
        del origin  # nothing is marked
        command = f"XA {'COMMIT' if commit else 'ROLLBACK'} {self._xid(gid)}"
        deadline = time.monotonic() + _DETACH_SECONDS
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._errors.reporting(), autocommit.connect() as connection:
            while True:
                try:
                    connection.exec_driver_sql(command)
                    return
                except exc.DBAPIError as error:
                    # The session that prepared it may not have ended yet, though its connection
                    # has.
                    if time.monotonic() > deadline or gid not in self.names(connection):
                        raise self._explain(error, gid) from None
                time.sleep(_POLL_SECONDS)

    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """See :meth:`Prepared.free_gid`; names are the database's own."""
        del connection
        return gid

    def names(self, connection: sa.Connection) -> frozenset[str]:
        """Those of this database, which is the second part of their names (bqual)."""
        with self._errors.reporting():
            rows = connection.exec_driver_sql("XA RECOVER").all()
        here = self._bqual()
        names = ((bytes(row.data), row.gtrid_length) for row in rows)
        return frozenset(name[:length].decode(errors="replace") for name, length in names if name[length:] == here)

    def _xid(self, gid: str) -> str:
        """The name of a transaction: ``gid``, and the database as its second part."""
        return f"X'{gid.encode().hex()}',X'{self._bqual().hex()}'"

    def _bqual(self) -> bytes:
        database = self._database.encode()
        return database if len(database) <= _XID_BYTES else hashlib.sha256(database).hexdigest().encode()

    def _explain(self, error: exc.SQLAlchemyError, gid: str) -> SubscriberError:
        """In PostgreSQL's words (rule C50)."""
        match getattr(getattr(error, "orig", None), "args", (None,))[0]:
            case 1397 | 1402:
                return ApplyError(f'prepared transaction with identifier "{gid}" does not exist', sqlstate="42704")
            case 1440:
                return ApplyError(f'transaction identifier "{gid}" is already in use', sqlstate="42710")
            case _:
                return self._errors.translate(error)


def _roll_back(connection: sa.Connection, xid: str) -> None:
    """Take an XA transaction back; what fails here the end of its session does."""
    for command in ("END", "ROLLBACK"):
        with suppress(exc.SQLAlchemyError):
            connection.exec_driver_sql(f"XA {command} {xid}")
