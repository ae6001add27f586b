"""Prepared transactions of MariaDB: XA transactions.

The first part of the XA name is PostgreSQL's GID; the second part is the database.
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
"""The maximum length of a part of an XA name, in bytes."""
_DETACH_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.01


class MariaDBPrepared:
    """See :class:`~subscriber.targets.roles.prepared.Prepared`.

    XA transactions outlive their session (MariaDB 10.5).
    """

    def __init__(self, engine: sa.Engine, errors: Errors, transactions: MariaDBTransactions, database: str) -> None:
        self._engine = engine
        self._errors = errors
        self._transactions = transactions
        self._database = database

    @contextmanager
    def begin(self, gid: str) -> Iterator[sa.Connection]:
        """See :meth:`Prepared.begin`; XA START to XA PREPARE.

        The isolation level is READ COMMITTED, so that the transaction locks the rows that it
        changes but no gaps between them. Changes that the publisher made concurrently must not wait
        for these locks until the transaction is finished.
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
                # The session cannot do anything else until another session has finished the
                # transaction.
                connection.invalidate()

    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        """See :meth:`Prepared.finish`; XA COMMIT or XA ROLLBACK."""
        del origin  # changes are not marked
        command = f"XA {'COMMIT' if commit else 'ROLLBACK'} {self._xid(gid)}"
        deadline = time.monotonic() + _DETACH_SECONDS
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with self._errors.reporting(), autocommit.connect() as connection:
            while True:
                try:
                    connection.exec_driver_sql(command)
                    return
                except exc.DBAPIError as error:
                    # The session that prepared it may still be ending, although its connection is
                    # closed.
                    if time.monotonic() > deadline or gid not in self.names(connection):
                        raise self._explain(error, gid) from None
                time.sleep(_POLL_SECONDS)

    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        """See :meth:`Prepared.free_gid`; always ``gid``, because XA names here include the
        database.
        """
        del connection
        return gid

    def names(self, connection: sa.Connection) -> frozenset[str]:
        """See :meth:`Prepared.names`; only XA names with this database as second part (bqual)."""
        with self._errors.reporting():
            rows = connection.exec_driver_sql("XA RECOVER").all()
        here = self._bqual()
        names = ((bytes(row.data), row.gtrid_length) for row in rows)
        return frozenset(name[:length].decode(errors="replace") for name, length in names if name[length:] == here)

    def _xid(self, gid: str) -> str:
        """The XA name of a transaction: ``gid``, and the database as its second part."""
        return f"X'{gid.encode().hex()}',X'{self._bqual().hex()}'"

    def _bqual(self) -> bytes:
        database = self._database.encode()
        return database if len(database) <= _XID_BYTES else hashlib.sha256(database).hexdigest().encode()

    def _explain(self, error: exc.SQLAlchemyError, gid: str) -> SubscriberError:
        """The translation of an error, with PostgreSQL's text (rule C50)."""
        match getattr(getattr(error, "orig", None), "args", (None,))[0]:
            case 1397 | 1402:
                return ApplyError(f'prepared transaction with identifier "{gid}" does not exist', sqlstate="42704")
            case 1440:
                return ApplyError(f'transaction identifier "{gid}" is already in use', sqlstate="42710")
            case _:
                return self._errors.translate(error)


def _roll_back(connection: sa.Connection, xid: str) -> None:
    """Roll back an XA transaction. If this fails, the end of the session rolls it back."""
    for command in ("END", "ROLLBACK"):
        with suppress(exc.SQLAlchemyError):
            connection.exec_driver_sql(f"XA {command} {xid}")
