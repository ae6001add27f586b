"""Transactions of a DuckDB target, which are optimistic."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.targets.file_locks import holders
from subscriber.targets.generic.transactions import GenericTransactions
from subscriber.targets.roles.errors import Errors


class DuckDBTransactions(GenericTransactions):
    """See :class:`~subscriber.targets.roles.transactions.Transactions`."""

    def __init__(self, engine: sa.Engine, errors: Errors, file: str) -> None:
        super().__init__(engine, errors)
        self._file = file

    def interrupt(self, connection: sa.Connection) -> None:
        """See :meth:`Transactions.interrupt`."""
        import duckdb

        with suppress(exc.SQLAlchemyError, duckdb.Error):  # it may just be closed
            driver: Any = connection.connection.driver_connection
            driver.interrupt()

    def waits_for(self, session: int | None) -> Sequence[str]:
        """See :meth:`Transactions.waits_for`; the processes that hold a lock on the file."""
        del session
        return holders(self._file)
