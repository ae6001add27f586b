"""Statements that write to PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from subscriber.targets.generic.writing import GenericWriting
from subscriber.targets.postgresql.catalog import (
    PostgreSQLTable,
)
from subscriber.targets.target_table import (
    TargetTable,
)


class PostgreSQLWriting(GenericWriting):
    """See :class:`~subscriber.targets.roles.writing.Writing`."""

    def may_suppress(self, table: TargetTable) -> bool:
        """See :meth:`Writing.may_suppress`; true if a BEFORE trigger may return NULL."""
        return isinstance(table, PostgreSQLTable) and table.may_suppress

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """See :meth:`Writing.truncate`; one TRUNCATE, never with CASCADE (rule C29).

        Partitions are truncated, but tables that inherit are not.
        """
        if not tables:
            return
        quote = connection.dialect.identifier_preparer.format_table
        only = {"partitioned table": ""}
        names = [only.get(table.kind, "ONLY ") + quote(table.clause()) for table in tables]
        identity = "RESTART IDENTITY" if restart_identity else "CONTINUE IDENTITY"
        with self._errors.reporting():
            connection.exec_driver_sql(f"TRUNCATE {', '.join(names)} {identity} RESTRICT")

    def override_identity(self, insert: str) -> str:
        """See :meth:`Writing.override_identity`; also writes GENERATED ALWAYS columns, as the apply
        worker does.
        """
        # Only placeholders follow the last VALUES, so it cannot be part of a column's name.
        head, values, tail = insert.rpartition(" VALUES (")
        return f"{head} OVERRIDING SYSTEM VALUE{values}{tail}" if values else insert
