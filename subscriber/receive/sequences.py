"""Where the publisher's sequences stand, for ALTER SUBSCRIPTION ... REFRESH SEQUENCES (rule D14, on every version from 10).

Asked for are the sequences of the subscribed tables' columns: what a column owns (serial, ``OWNED BY``) or is (identity). A
sequence that nothing owns has no place in a target that is no PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from subscriber.types.shape import SequencePosition


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSequence(SequencePosition):
    """A sequence of the publisher, by the column that it belongs to.

    Attributes:
        schema: of the table.
        table: its name.
        column: the column.
    """

    schema: str
    table: str
    column: str


def published_sequences(
    connection: psycopg.Connection[Any], tables: Sequence[tuple[str, str]]
) -> list[PublishedSequence]:
    """The sequences of these tables (schema, name), in the order of tables and columns.

    Raises:
        psycopg.Error: what the server said; reading a sequence needs SELECT on it.
    """
    owned = connection.execute(
        "SELECT n.nspname::text, c.relname::text, a.attname::text, sn.nspname::text, s.relname::text, q.seqincrement"
        " FROM unnest(%s::text[], %s::text[]) AS t (schema, name)"
        " JOIN pg_namespace n ON n.nspname = t.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name"
        " JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass"
        "  AND d.refobjid = c.oid AND d.deptype IN ('a', 'i')"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND a.attnum > 0 AND NOT a.attisdropped"
        " JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_namespace sn ON sn.oid = s.relnamespace"
        " JOIN pg_sequence q ON q.seqrelid = s.oid ORDER BY n.nspname, c.relname, a.attnum, s.relname",
        ([schema for schema, _ in tables], [name for _, name in tables]),
    ).fetchall()
    found = []
    for schema, table, column, *name, increment in owned:
        # The sequence itself tells: pg_sequences shows nothing until it is called.
        query = sql.SQL("SELECT last_value, is_called FROM {}").format(sql.Identifier(*name))
        row = connection.execute(query).fetchone()
        assert row is not None  # a sequence has one row
        found.append(
            PublishedSequence(
                schema=schema, table=table, column=column, last_value=row[0], is_called=row[1], increment=increment
            )
        )
    return found
