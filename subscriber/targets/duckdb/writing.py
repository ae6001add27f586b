"""Statements that write to DuckDB.

TRUNCATE is DELETE without WHERE; RESTRICT is checked against the foreign keys (rule C30).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from subscriber.errors import (
    ConflictError,
)
from subscriber.targets.duckdb.sequences import restart_sequences
from subscriber.targets.generic.writing import GenericWriting, delete_rows
from subscriber.targets.target_table import (
    TargetTable,
)

_REFERENCES: Final = sa.text(
    "SELECT DISTINCT table_name FROM duckdb_constraints() WHERE database_name = current_database()"
    " AND schema_name = :schema AND constraint_type = 'FOREIGN KEY' AND referenced_table = :table"
)


class DuckDBWriting(GenericWriting):
    """See :class:`~subscriber.targets.roles.writing.Writing`."""

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """See :meth:`Writing.truncate`.

        Sequences restart immediately, even if the transaction is rolled back: from their MINVALUE,
        or from their MAXVALUE if they count down.
        """
        with self._errors.reporting():
            for table in tables:
                _check_references(connection, table, tables)
            delete_rows(connection, tables)
            if restart_identity:
                for table in tables:
                    restart_sequences(connection, table)


def _check_references(connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> None:
    # A foreign key and its referenced table are in the same schema.
    place = {"schema": table.schema, "table": table.name}
    referencing = set(connection.execute(_REFERENCES, place).scalars())
    referencing -= {other.name for other in truncated if other.schema == table.schema}
    if referencing:
        raise ConflictError(
            "cannot truncate a table referenced in a foreign key constraint",
            sqlstate="0A000",
            detail=f'Table "{min(referencing)}" references "{table.name}".',
            hint="Truncate the referencing table at the publisher in the same command.",
        )
