"""The tables that the server's publications publish, read with the queries of PostgreSQL's commands
and workers (rules D7-D9, B39, C55).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import psycopg
from psycopg import sql

from subscriber.errors import NotSupportedError, PublisherNotReady
from subscriber.publisher.server_errors import error_of
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.server_features import ServerFeatures

_KINDS: Final[dict[str, Literal["table", "partitioned table"]]] = {"r": "table", "p": "partitioned table"}


@dataclass(frozen=True, slots=True)
class ServerPublications:
    """Publications of the server (:class:`~subscriber.schema.published_table.Publications`).

    Attributes:
        connection: a connection to the publisher.
        names: the names of the publications; a publication that does not exist publishes nothing.
    """

    connection: Connection
    names: Sequence[str]

    def published_tables(self) -> list[PublishedTable]:
        """The tables that the publications publish together, each once, by schema and name (rules
        D7, D9).

        From version 16 on, a partition is left out if its root is also published by any of them. In
        older versions this is decided for each publication separately.

        Raises:
            NotSupportedError: two publications publish different columns of a table (B39).
            PublisherError: 08006, ``could not receive list of replicated tables from the publisher:
                …``.
        """
        query = _published_tables_query(features_of(self.connection))
        rows = _receive(self.connection, "list of replicated tables", query, (list(self.names),))
        tables: dict[tuple[str, str], PublishedTable] = {}
        for schema, name, kind, columns, filters, generated in rows:
            # Before 18, the list includes generated columns, although they are not sent.
            sent = None if columns is None else tuple(column for column in columns if column not in generated)
            table = PublishedTable(schema, name, _KINDS[kind], sent, _combined(filters))
            if table.key in tables:
                raise NotSupportedError(
                    f'cannot use different column lists for table "{table.qualified_name}" in different publications',
                    hint="Give the table the same column list in all of them, or create a subscription for each.",
                    relation=table.qualified_name,
                )
            tables[table.key] = table
        return list(tables.values())

    def published_table(self, schema: str, name: str) -> PublishedTable:
        """The columns and rows of one table that are published, by the queries that PostgreSQL's
        table synchronization sends before its copy (rules D7, D8).

        A table that no publication lists any more is returned with all columns and rows, as
        PostgreSQL copies it.

        Raises:
            PublisherNotReady: 0A000, the publications publish different columns of the table.
            psycopg.Error: a query failed.
        """
        features = features_of(self.connection)
        if not features.column_lists:
            return PublishedTable(schema, name)
        # From 18 on, generated columns may be published, and then the list includes them. Before
        # 18, the list includes them although they are not sent.
        sent = "" if features.published_generated_columns else " AND a.attgenerated = ''"
        rows = self.connection.execute(
            "SELECT DISTINCT c.relkind::text, ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = gpt.relid"
            f"  AND a.attnum > 0 AND NOT a.attisdropped AND (gpt.attrs IS NULL OR a.attnum = ANY (gpt.attrs)){sent}"
            "  ORDER BY a.attnum), pg_get_expr(gpt.qual, gpt.relid)"
            " FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt"
            " JOIN pg_class c ON c.oid = gpt.relid JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s AND p.pubname = ANY (%s) ORDER BY 3".encode(),
            (schema, name, list(self.names)),
        ).fetchall()
        if not rows:
            return PublishedTable(schema, name)
        kind, columns, _ = rows[0]
        if any(row[1] != columns for row in rows):
            raise PublisherNotReady(
                f'cannot use different column lists for table "{schema}.{name}" in different publications',
                sqlstate="0A000",
                hint="Give the table one column list in all publications of the subscription.",
                relation=f"{schema}.{name}",
            )
        return PublishedTable(schema, name, _KINDS[kind], tuple(columns), _combined(row[2] for row in rows))

    def has_column_list(self, schema: str, name: str) -> bool:
        """Whether one of the publications has a column list for the table.

        Raises:
            psycopg.Error: the query failed.
        """
        if not features_of(self.connection).column_lists:
            return False
        row = self.connection.execute(
            "SELECT EXISTS (SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid"
            " JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE p.pubname = ANY (%s) AND r.prattrs IS NOT NULL AND n.nspname = %s AND c.relname = %s)",
            (list(self.names), schema, name),
        ).fetchone()
        return row is not None and bool(row[0])

    def published_actions(self, schema: str, name: str) -> frozenset[str] | None:
        """See :meth:`Publications.published_actions`.

        Raises:
            psycopg.Error: the query failed.
        """
        truncate = "p.pubtruncate" if features_of(self.connection).published_truncate else "false"
        rows = self.connection.execute(
            "SELECT CASE WHEN p.pubinsert THEN 'insert' END, CASE WHEN p.pubupdate THEN 'update' END,"
            f" CASE WHEN p.pubdelete THEN 'delete' END, CASE WHEN {truncate} THEN 'truncate' END FROM pg_publication p,"
            " LATERAL pg_get_publication_tables(p.pubname) gpt, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = gpt.relid AND n.nspname = %s AND c.relname = %s AND p.pubname = ANY (%s)".encode(),
            (schema, name, list(self.names)),
        ).fetchall()
        return frozenset(action for row in rows for action in row if action is not None) if rows else None

    def changing_tables(self) -> frozenset[tuple[str, str]]:
        """Schema and name of the tables whose UPDATEs or DELETEs are published.

        Raises:
            psycopg.Error: the query failed.
        """
        rows = self.connection.execute(
            "SELECT DISTINCT n.nspname::text, c.relname::text FROM pg_publication p,"
            " LATERAL pg_get_publication_tables(p.pubname) gpt, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = gpt.relid AND p.pubname = ANY (%s) AND (p.pubupdate OR p.pubdelete)",
            (list(self.names),),
        )
        return frozenset((schema, name) for schema, name in rows)


def _combined(filters: Iterable[str | None]) -> tuple[str, ...]:
    """The filters of all publications that have a table; empty if one of them has no filter for it
    (rule D8).
    """
    listed = tuple(filters)
    return () if None in listed else tuple(text for text in listed if text is not None)


def _published_tables_query(features: ServerFeatures) -> sql.Composed:
    if features.tables_of_several_publications:
        source: sql.Composable = sql.SQL(
            "SELECT gpt.relid, ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = gpt.relid"
            "   AND a.attnum = ANY (gpt.attrs) ORDER BY a.attnum) AS columns, pg_get_expr(gpt.qual, gpt.relid) AS filter"
            " FROM (SELECT (pg_get_publication_tables(VARIADIC array_agg(pubname::text))).*"
            "       FROM pg_publication WHERE pubname = ANY (%s)) AS gpt"
        )
    else:
        details = "t.attnames::text[], t.rowfilter" if features.row_filters else "NULL::text[], NULL::text"
        source = sql.SQL(
            "SELECT c.oid, {} FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname"
            " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename WHERE t.pubname = ANY (%s)"
        ).format(sql.SQL(details))
    generated = "ARRAY[]::text[]"
    if features.generated_columns and not features.published_generated_columns:
        generated = (
            "ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND attgenerated <> '')"
        )
    return sql.SQL(
        "SELECT n.nspname::text, c.relname::text, c.relkind::text, t.columns, t.filters, {}"
        " FROM (SELECT relid, columns, array_agg(DISTINCT filter) AS filters FROM ({}) AS listed (relid, columns, filter)"
        "       GROUP BY relid, columns) AS t"
        " JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2, 4"
    ).format(sql.SQL(generated), source)


def publications_of_other_origins(
    connection: Connection, names: Sequence[str], known: Collection[tuple[str, str]]
) -> list[str]:
    """The publications with tables that this server itself subscribes to, or whose partitions or
    roots it subscribes to (rule C55).

    Args:
        connection: a connection to the publisher.
        names: the publications.
        known: tables (schema, name) that are ignored, because they will not be copied.

    Raises:
        PublisherError: 08006, ``could not receive list of replicated tables from the publisher:
            …``.
    """
    related = "GPT.relid = PS.srrelid"
    if features_of(connection).partition_functions:
        related += (
            " OR GPT.relid IN (SELECT relid FROM pg_partition_ancestors(PS.srrelid)"
            " UNION SELECT relid FROM pg_partition_tree(PS.srrelid))"
        )
    query = sql.SQL(
        "SELECT DISTINCT P.pubname::text FROM pg_publication P, LATERAL pg_get_publication_tables(P.pubname) GPT"
        " JOIN pg_subscription_rel PS ON ({}), pg_class C JOIN pg_namespace N ON N.oid = C.relnamespace"
        " WHERE C.oid = GPT.relid AND P.pubname = ANY (%s)"
        " AND NOT EXISTS (SELECT FROM unnest(%s::text[], %s::text[]) AS k (schema, name)"
        "                 WHERE k.schema = N.nspname AND k.name = C.relname) ORDER BY 1"
    ).format(sql.SQL(related))
    schemas, tables = [one[0] for one in known], [one[1] for one in known]
    return [row[0] for row in _receive(connection, "list of replicated tables", query, (list(names), schemas, tables))]


def _receive(
    connection: Connection, what: str, query: sql.Composed, arguments: tuple[object, ...]
) -> list[tuple[Any, ...]]:
    try:
        return connection.execute(query, arguments).fetchall()
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        found = error_of(error)
        raise type(found)(
            f"could not receive {what} from the publisher: ERROR:  {found.message}",
            sqlstate="08006",
            detail=found.detail,
            hint=found.hint,
        ) from error
