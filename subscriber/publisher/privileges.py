"""The tables that the role of a subscription's CONNECTION may read at the publisher. The copy of
any other table fails.

PostgreSQL requires SELECT on the columns that are read, or on the whole table, and USAGE on its
schema. A partitioned table that is published as itself is read by its own name, so that its own
privileges count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from subscriber.errors import PublisherNotReady
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.published_table import PublishedTable


@dataclass(frozen=True, slots=True)
class UnreadableTable:
    """A published table that the role may not read.

    Attributes:
        schema: the table's schema.
        name: the table's name.
        role: the role of the connection.
        grants: the statements that grant the privileges, without their semicolons.
    """

    schema: str
    name: str
    role: str
    grants: tuple[str, ...]

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.name}"


def unreadable_tables(connection: Connection, tables: Sequence[PublishedTable]) -> list[UnreadableTable]:
    """The tables that the connection's role may not read, in the order given. Tables that no longer
    exist are left out.

    Raises:
        psycopg.Error: the query failed.
    """
    # Without column lists, the server publishes every column that is not generated.
    features = features_of(connection)
    sent = "AND a.attgenerated = ''" if features.generated_columns and not features.column_lists else ""
    rows = connection.execute(
        "SELECT n.nspname::text, c.relname::text, current_user::text, has_schema_privilege(n.oid, 'USAGE'),"
        " has_table_privilege(c.oid, 'SELECT'),"
        " ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        f"  {sent} AND NOT has_column_privilege(c.oid, a.attnum, 'SELECT'))"
        " FROM unnest(%s::text[], %s::text[]) AS t (schema, name)"
        " JOIN pg_namespace n ON n.nspname = t.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name".encode(),
        ([table.schema for table in tables], [table.name for table in tables]),
    ).fetchall()
    found = {(schema, name): tuple(row) for schema, name, *row in rows}
    unreadable = []
    for table in tables:
        role, in_schema, whole, closed = found.get((table.schema, table.name), ("", True, True, []))
        missing = closed if table.columns is None else [column for column in closed if column in table.columns]
        grants = []
        if not in_schema:
            grants.append(_grant("USAGE ON SCHEMA {}", sql.Identifier(table.schema), role))
        if not whole and missing:
            grants.append(_grant("SELECT ON TABLE {}", sql.Identifier(table.schema, table.name), role))
        if grants:
            unreadable.append(UnreadableTable(table.schema, table.name, role, tuple(grants)))
    return unreadable


def _grant(privilege: str, what: sql.Identifier, role: str) -> str:
    statement = sql.SQL("GRANT " + privilege + " TO {}")
    return statement.format(what, sql.Identifier(role)).as_string(None)


def read_refused(table: UnreadableTable) -> PublisherNotReady:
    """The error for a table that cannot be copied, with PostgreSQL's text and the statements to
    run.
    """
    what = f"schema {table.schema}" if table.grants[0].startswith("GRANT USAGE") else f"table {table.name}"
    return PublisherNotReady(
        f'could not start initial contents copy for table "{table.qualified_name}": permission denied for {what}',
        sqlstate="42501",
        detail=f'Role "{table.role}" cannot copy table "{table.qualified_name}".',
        hint=f"Run at the publisher: {' '.join(f'{grant};' for grant in table.grants)}",
        relation=table.qualified_name,
    )
