"""The relation messages that the stream would send for published tables.

Commands compare them with the target's tables before there is a stream.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from subscriber.protocol.messages import IDENTITY_FLAG, Relation, RelationColumn
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.published_table import PublishedTable


def announced_relations(connection: Connection, tables: Sequence[PublishedTable]) -> list[Relation]:
    """The relation message of each table, in the order given. A table that no longer exists is left
    out.

    Raises:
        psycopg.Error: the query failed.
    """
    features = features_of(connection)
    generated = "a.attgenerated <> ''" if features.generated_columns else "false"
    key_columns = "i.indnkeyatts" if features.covering_indexes else "i.indnatts"
    rows = connection.execute(
        "SELECT n.nspname::text, c.relname::text, c.oid::int8, c.relreplident::text,"
        f" a.attname::text, a.atttypid::int8, a.atttypmod, {generated},"
        f" c.relreplident = 'f' OR COALESCE(a.attnum = ANY ((i.indkey::int2[])[0:{key_columns} - 1]), false)"
        " FROM unnest(%s::text[], %s::text[]) AS t (schema, name)"
        " JOIN pg_namespace n ON n.nspname = t.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name"
        " LEFT JOIN pg_index i ON i.indexrelid = pg_get_replica_identity_index(c.oid)"
        " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " ORDER BY a.attnum".encode(),
        ([table.schema for table in tables], [table.name for table in tables]),
    ).fetchall()
    described: dict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)
    for schema, name, *row in rows:
        described[schema, name].append(tuple(row))
    return [
        _relation(table, described[table.schema, table.name])
        for table in tables
        if (table.schema, table.name) in described
    ]


def _relation(table: PublishedTable, rows: Sequence[tuple[Any, ...]]) -> Relation:
    oid, identity = rows[0][:2]
    columns = tuple(
        RelationColumn(IDENTITY_FLAG if is_key else 0, name, type_oid, modifier)
        for _, _, name, type_oid, modifier, is_generated, is_key in rows
        if name is not None and (not is_generated if table.columns is None else name in table.columns)
    )
    return Relation(oid, table.schema, table.name, identity, columns)
