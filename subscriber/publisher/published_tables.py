"""What publications publish, asked of the publisher as PostgreSQL's own commands ask (rules D7, D9, B39, C55)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import psycopg
from psycopg import sql

from subscriber.errors import NotSupportedError
from subscriber.publisher.connection import error_of
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.server_features import ServerFeatures

_KINDS: Final[dict[str, Literal["table", "partitioned table"]]] = {"r": "table", "p": "partitioned table"}


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table that a publication publishes.

    Attributes:
        schema: the table's.
        name: the table's.
        kind: a partitioned table is one that is published through its root.
        columns: those that are published, in the table's order; None from servers before 15, which publish every column.
    """

    schema: str
    name: str
    kind: Literal["table", "partitioned table"] = "table"
    columns: tuple[str, ...] | None = None

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.name}"


def published_tables(connection: Connection, names: Sequence[str]) -> list[PublishedTable]:
    """The tables that the publications publish, together: each once (rules D7, D9).

    From 16 on partitions are left out whose root is listed; before, each publication is taken for itself.

    Raises:
        NotSupportedError: two publications publish different columns of a table (B39).
        PublisherError: 08006, ``could not receive list of replicated tables from the publisher: …``.
    """
    rows = _receive(
        connection, "list of replicated tables", _published_tables_query(features_of(connection)), (list(names),)
    )
    tables: dict[tuple[str, str], PublishedTable] = {}
    for schema, name, kind, columns, generated in rows:
        # Before 18 generated columns are listed, and not sent.
        sent = None if columns is None else tuple(column for column in columns if column not in generated)
        table = PublishedTable(schema, name, _KINDS[kind], sent)
        if (schema, name) in tables:
            raise NotSupportedError(
                f'cannot use different column lists for table "{table.qualified_name}" in different publications',
                hint="Give the table the same column list in all of them, or make a subscription for each.",
                relation=table.qualified_name,
            )
        tables[schema, name] = table
    return list(tables.values())


def _published_tables_query(features: ServerFeatures) -> sql.Composed:
    if features.tables_of_several_publications:
        source: sql.Composable = sql.SQL(
            "SELECT DISTINCT gpt.relid, ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = gpt.relid"
            "   AND a.attnum = ANY (gpt.attrs) ORDER BY a.attnum) AS columns"
            " FROM (SELECT (pg_get_publication_tables(VARIADIC array_agg(pubname::text))).*"
            "       FROM pg_publication WHERE pubname = ANY (%s)) AS gpt"
        )
    else:
        columns = "t.attnames::text[]" if features.column_lists else "NULL::text[]"
        source = sql.SQL(
            "SELECT DISTINCT c.oid AS relid, {} AS columns FROM pg_publication_tables t"
            " JOIN pg_namespace n ON n.nspname = t.schemaname"
            " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename WHERE t.pubname = ANY (%s)"
        ).format(sql.SQL(columns))
    generated = "ARRAY[]::text[]"
    if features.generated_columns and not features.published_generated_columns:
        generated = (
            "ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND attgenerated <> '')"
        )
    return sql.SQL(
        "SELECT n.nspname::text, c.relname::text, c.relkind::text, t.columns, {} FROM ({}) AS t"
        " JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2, 4"
    ).format(sql.SQL(generated), source)


def publications_of_other_origins(
    connection: Connection, names: Sequence[str], known: Collection[tuple[str, str]]
) -> list[str]:
    """Which publications hold tables that this server itself subscribes to, as do their partitions or roots (rule C55).

    Args:
        connection: to the publisher.
        names: the publications.
        known: tables (schema, name) that do not count, because they are not going to be copied.
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
