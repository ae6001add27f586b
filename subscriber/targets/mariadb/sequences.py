"""Counters of MariaDB: AUTO_INCREMENT."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.schema.shape import SequencePosition
from subscriber.targets.generic.sequences import GenericSequences
from subscriber.targets.mariadb import values as mariadb_values
from subscriber.targets.mariadb.catalog import counts, next_auto_increment
from subscriber.targets.target_table import TargetSequence, TargetTable


class MariaDBSequences(GenericSequences):
    """See :class:`~subscriber.targets.roles.sequences.Sequences`."""

    def of_column(self, connection: sa.Connection, table: TargetTable, column: str) -> TargetSequence | None:
        """See :meth:`Sequences.of_column`.

        The values advance by the server's ``auto_increment_increment``.
        """
        found = table.column(column)
        if found is None or not counts(found):
            return None
        with self._errors.reporting():
            following = next_auto_increment(connection, table)
        position = SequencePosition(last_value=max(1, following - 1), is_called=following > 1)
        name = f"{table.schema or ''}.{table.name}"
        return TargetSequence(name, position, 1, mariadb_values.greatest_integer(found), table)

    def set(self, connection: sa.Connection, sequence: TargetSequence, position: SequencePosition) -> None:
        """See :meth:`Sequences.set`.

        ALTER TABLE commits the transaction. The server replaces a value that is not above the
        table's largest value by the next value above it.
        """
        assert sequence.table is not None
        name = connection.dialect.identifier_preparer.format_table(sequence.table.clause())
        with self._errors.reporting():
            connection.exec_driver_sql(f"ALTER TABLE {name} AUTO_INCREMENT = {position.next_value}")
