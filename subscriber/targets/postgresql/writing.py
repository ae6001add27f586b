"""Statements that write to PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from subscriber.errors import ConflictError, TargetRelationError
from subscriber.targets.generic.writing import GenericWriting, named, referenced
from subscriber.targets.postgresql.catalog import (
    PostgreSQLTable,
)
from subscriber.targets.target_table import (
    TargetTable,
)

_ACTING: Final = sa.text(
    # The foreign keys that a DELETE of this session would obey by changing rows of other tables.
    "SELECT r.relname, f.conrelid = f.confrelid FROM pg_constraint f JOIN pg_class r ON r.oid = f.conrelid"
    " JOIN pg_class c ON c.oid = f.confrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE f.contype = 'f' AND f.confdeltype IN ('c', 'n', 'd')"
    " AND current_setting('session_replication_role') <> 'replica'"
    " AND n.nspname = :schema AND c.relname = :table ORDER BY r.relname"
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

    def delete_acts(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Writing.delete_acts`; false for a replica."""
        return bool(self._acting(connection, table))

    def _acting(self, connection: sa.Connection, table: TargetTable) -> Sequence[tuple[str, bool]]:
        """The tables whose foreign keys to ``table`` act, and whether each is the table itself."""
        with self._errors.reporting():
            rows = connection.execute(_ACTING, {"schema": table.schema, "table": table.name})
            return [(other, is_same) for other, is_same in rows]

    def delete_all(self, connection: sa.Connection, table: TargetTable) -> None:
        """See :meth:`Writing.delete_all`.

        TRUNCATE would lock out readers. A role that cannot be a replica is refused where a foreign
        key would act on other tables.
        """
        if not isinstance(table, PostgreSQLTable):
            super().delete_all(connection, table)
            return
        only = "" if table.kind == "partitioned table" else "ONLY "
        name = connection.dialect.identifier_preparer.format_table(table.clause())
        acting = [other for other, is_same in self._acting(connection, table) if not is_same]
        if acting:
            raise referenced(table, f'Table "{acting[0]}" references "{table.name}", with an action ON DELETE.')
        try:
            with self._errors.reporting():
                connection.exec_driver_sql(f"DELETE FROM {only}{name}")
                left = table.may_suppress and table.has_rows(connection)
        except ConflictError as error:
            raise named(error, table) from None
        if left:
            raise TargetRelationError(
                f'the rows of table "{table.name}" cannot be replaced, because a trigger has left some of them',
                sqlstate="55000",
                hint=f"Run at the target: ALTER TABLE {name} DISABLE TRIGGER USER. Enable the triggers when the table is copied.",
            )

    def override_identity(self, insert: str) -> str:
        """See :meth:`Writing.override_identity`; also writes GENERATED ALWAYS columns, as the apply
        worker does.
        """
        # Only placeholders follow the last VALUES, so it cannot be part of a column's name.
        head, values, tail = insert.rpartition(" VALUES (")
        return f"{head} OVERRIDING SYSTEM VALUE{values}{tail}" if values else insert
