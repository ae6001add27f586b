"""Statements that write to SQLite.

TRUNCATE is DELETE without WHERE; RESTRICT is checked against the foreign keys of every table (rule
C30).
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from subscriber.errors import (
    ConflictError,
)
from subscriber.targets.generic.writing import GenericWriting, delete_rows
from subscriber.targets.roles.writing import Written
from subscriber.targets.sqlite.catalog import SQLiteTable, table_list
from subscriber.targets.target_table import TargetTable


class SQLiteWriting(GenericWriting):
    """See :class:`~subscriber.targets.roles.writing.Writing`."""

    def or_fail(self, table: TargetTable, statement: Written) -> Written:
        """See :meth:`Writing.or_fail`; adds OR ABORT.

        OR ABORT overrides the ON CONFLICT clauses of constraints, for the statement and for its
        triggers.
        """
        resolves = isinstance(table, SQLiteTable) and table.resolves_conflicts
        return statement.prefix_with("OR ABORT") if resolves else statement

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """See :meth:`Writing.truncate`."""
        with self._errors.reporting():
            for table in tables:
                _check_references(connection, table, tables)
            delete_rows(connection, tables)
            if restart_identity:
                _restart_identities(connection, tables)


def _check_references(connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> None:
    query = sa.text(
        "SELECT DISTINCT t.name FROM pragma_table_list AS t, pragma_foreign_key_list(t.name, t.schema) AS f"
        " WHERE t.schema = :schema AND t.type = 'table' AND f.\"table\" = :name COLLATE NOCASE"
    )
    referencing = set(connection.execute(query, {"schema": table.schema, "name": table.name}).scalars())
    referencing -= {other.name for other in truncated if other.schema == table.schema}
    if referencing:
        raise ConflictError(
            "cannot truncate a table referenced in a foreign key constraint",
            sqlstate="0A000",
            detail=f'Table "{min(referencing)}" references "{table.name}".',
            hint="Truncate the referencing table at the publisher in the same command.",
        )


def _restart_identities(connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
    for table in tables:
        if table_list(connection, str(table.schema), "sqlite_sequence") is not None:
            sequence = sa.table("sqlite_sequence", sa.column("name"), schema=table.schema)
            connection.execute(sa.delete(sequence).where(sequence.c.name == table.name))
