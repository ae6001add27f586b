"""What a migration must know of the published tables before it begins: their sizes, and whether row
security hides rows of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import sql

from subscriber.publisher.sql_connection import Connection
from subscriber.schema.published_table import PublishedTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The properties of a published table, its partitions included.

    Attributes:
        schema: the table's schema.
        name: the table's name.
        rows: the planner's estimate of the number of rows.
        heap_bytes: the size of the rows on disk, TOAST included, without indexes.
        total_bytes: the size on disk, as ``pg_total_relation_size`` returns it.
        out_of_line_bytes: the size of the values that are stored out of line (TOAST).
        is_hidden: whether row security hides rows from the connection's role, so that a copy would
            leave them out without an error.
    """

    schema: str
    name: str
    rows: int
    heap_bytes: int
    total_bytes: int
    out_of_line_bytes: int
    is_hidden: bool

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.name}"


_FACTS: Final = """
WITH RECURSIVE wanted (root, schema, name) AS (
  SELECT c.oid, t.schema, t.name FROM unnest(%s::text[], %s::text[]) AS t (schema, name)
   JOIN pg_namespace n ON n.nspname = t.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name),
tree (root, oid) AS (
  SELECT root, root FROM wanted
  UNION SELECT t.root, i.inhrelid FROM tree t JOIN pg_class up ON up.oid = t.oid AND up.relkind = 'p'
   JOIN pg_inherits i ON i.inhparent = t.oid)
SELECT w.schema, w.name, sum(greatest(c.reltuples, 0))::int8, sum(pg_table_size(c.oid))::int8,
 sum(pg_total_relation_size(c.oid))::int8,
 sum(CASE WHEN c.reltoastrelid <> 0 THEN pg_relation_size(c.reltoastrelid) ELSE 0 END)::int8, row_security_active(w.root)
 FROM wanted w JOIN tree t ON t.root = w.root JOIN pg_class c ON c.oid = t.oid
 GROUP BY w.schema, w.name, w.root ORDER BY 1, 2"""


def read_table_facts(connection: Connection, tables: Sequence[PublishedTable]) -> list[TableFacts]:
    """The properties of published tables, ordered by schema and name. Tables that no longer exist
    are left out.

    Raises:
        psycopg.Error: the query failed.
    """
    rows = connection.execute(
        _FACTS.encode(), ([table.schema for table in tables], [table.name for table in tables])
    ).fetchall()
    return [
        TableFacts(
            schema=schema,
            name=name,
            rows=number,
            heap_bytes=heap,
            total_bytes=total,
            out_of_line_bytes=out_of_line,
            is_hidden=hidden,
        )
        for schema, name, number, heap, total, out_of_line, hidden in rows
    ]


@dataclass(frozen=True, slots=True)
class ReadingSpeed:
    """How fast a table was read.

    Attributes:
        text_bytes: the number of bytes that COPY has sent.
        rows: the number of rows.
        seconds: the duration.
    """

    text_bytes: int
    rows: int
    seconds: float


def sample_reading(connection: Connection, schema: str, name: str, seconds: float = 1.0) -> ReadingSpeed:
    """Read a table with COPY until it ends or the time is over, and drop the rows.

    Raises:
        psycopg.Error: the table cannot be read.
    """
    table = sql.Identifier(schema, name)
    text_bytes = rows = 0
    began = time.monotonic()
    taken: float | None = None
    query = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT").format(table)
    try:
        with connection.cursor() as cursor, cursor.copy(query) as copy:
            for block in copy:
                if taken is not None:
                    continue  # what the server has sent before it has noticed the cancel request
                text_bytes += len(block)
                rows += bytes(block).count(b"\n")
                if time.monotonic() - began >= seconds:
                    taken = time.monotonic() - began
                    # Leaving the block here would leave the connection with a command in progress.
                    connection.cancel_safe()
    except psycopg.errors.QueryCanceled:
        if taken is None:
            raise
    return ReadingSpeed(text_bytes, rows, max(taken or time.monotonic() - began, 1e-6))
