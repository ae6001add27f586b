"""Statements that write to MariaDB.

TRUNCATE is DELETE without WHERE, because TRUNCATE commits; RESTRICT is checked (rule C30).
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from subscriber.targets.generic.writing import GenericWriting, delete_rows
from subscriber.targets.mariadb.catalog import check_references, counts
from subscriber.targets.mariadb.counters import CounterRestarts
from subscriber.targets.roles.errors import Errors
from subscriber.targets.target_table import TargetTable


class MariaDBWriting(GenericWriting):
    """See :class:`~subscriber.targets.roles.writing.Writing`."""

    def __init__(self, errors: Errors, counters: CounterRestarts) -> None:
        super().__init__(errors)
        self._counters = counters

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """See :meth:`Writing.truncate`; AUTO_INCREMENT is reset after the transaction has
        committed.
        """
        with self._errors.reporting():
            for table in tables:
                check_references(connection, table, tables)
            delete_rows(connection, tables)
        if restart_identity:
            self._counters.want(connection, [table for table in tables if any(map(counts, table.columns))])
