"""Published tables without a replica identity: the publisher refuses every UPDATE and DELETE on
them, from any application (rules B32, B33).

The check is the server's (CheckCmdReplicaIdentity), for each table that has rows. For a partitioned
table it therefore checks the partitions, whether a publication names the table or the partitions.
As the server does, it uses ``pg_get_replica_identity_index``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from subscriber.publisher.sql_connection import Connection, features_of


@dataclass(frozen=True, slots=True)
class TableWithoutIdentity:
    """A table whose rows cannot be identified in the stream.

    Attributes:
        schema: the table's schema.
        name: the table's name.
        updates: whether a publication of the subscription publishes its UPDATEs, so that UPDATE
            fails at the publisher.
        deletes: whether a publication publishes its DELETEs, so that DELETE fails at the publisher.
        statement: the ALTER TABLE that sets a replica identity, without a semicolon.
    """

    schema: str
    name: str
    updates: bool
    deletes: bool
    statement: str

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.name}"


def tables_without_identity(connection: Connection, publications: Sequence[str]) -> list[TableWithoutIdentity]:
    """The tables and partitions without a replica identity whose UPDATEs or DELETEs are published,
    sorted by name.

    Raises:
        psycopg.Error: the query failed.
    """
    key_columns = "i.indnkeyatts" if features_of(connection).covering_indexes else "i.indnatts"
    rows = connection.execute(
        "WITH RECURSIVE published (oid, updates, deletes) AS ("
        "  SELECT gpt.relid::oid, p.pubupdate, p.pubdelete FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt"
        "   WHERE p.pubname = ANY (%s) AND (p.pubupdate OR p.pubdelete)"
        "  UNION SELECT i.inhrelid, updates, deletes FROM published JOIN pg_class up ON up.oid = published.oid AND up.relkind = 'p'"
        "   JOIN pg_inherits i ON i.inhparent = up.oid)"
        " SELECT n.nspname::text, c.relname::text, bool_or(updates), bool_or(deletes),"
        # An index that can identify rows: the primary key, or else the unique index with the fewest
        # columns.
        " (SELECT CASE WHEN i.indisprimary THEN '' ELSE x.relname::text END FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid"
        "   WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL"
        "    AND i.indexprs IS NULL AND NOT EXISTS (SELECT FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)"
        "      JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum"
        f"      WHERE k.place <= {key_columns} AND NOT a.attnotnull)"
        f"   ORDER BY i.indisprimary DESC, {key_columns}, x.relname LIMIT 1)"
        " FROM published JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind = 'r' AND c.relreplident <> 'f' AND pg_get_replica_identity_index(c.oid) IS NULL"
        " GROUP BY n.nspname, c.relname, c.oid ORDER BY 1, 2".encode(),
        (list(publications),),
    ).fetchall()
    return [
        TableWithoutIdentity(schema, name, updates, deletes, _statement(schema, name, index))
        for schema, name, updates, deletes, index in rows
    ]


def _statement(schema: str, name: str, index: str | None) -> str:
    """ALTER TABLE … REPLICA IDENTITY; an empty index name stands for the primary key."""
    if index is None:
        identity: sql.Composable = sql.SQL("FULL")
    elif index == "":
        identity = sql.SQL("DEFAULT")
    else:
        identity = sql.SQL("USING INDEX {}").format(sql.Identifier(index))
    table = sql.Identifier(schema, name)
    return sql.SQL("ALTER TABLE {} REPLICA IDENTITY {}").format(table, identity).as_string(None)
