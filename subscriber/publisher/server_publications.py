"""Which tables the server's publications publish, read as PostgreSQL does (D7-D9, B39, C55)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

import psycopg
from psycopg import sql
from typing_extensions import override

from subscriber.base.errors import NotSupportedError, PublisherNotReady
from subscriber.postgres.publication.definition import OPERATIONS, GeneratedColumns, Publication, TableEntry
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.publisher.connection import Connection, features_of
from subscriber.publisher.server_errors import error_of

_KINDS: Final[dict[str, Literal["table", "partitioned table"]]] = {"r": "table", "p": "partitioned table"}


@dataclass(frozen=True, slots=True)
class ServerPublications:
    """Publications of the server. One that does not exist publishes nothing."""

    connection: Connection
    names: Sequence[str]

    def published_tables(self) -> list[PublishedTable]:
        """The tables that the publications publish together, each once, by schema and name (rules
        D7, D9); two different column lists of a table are refused (B39). From version 16 on, a
        partition is left out if any of them publishes its root (before: the same one).
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
        """What is published of one table, by the queries of PostgreSQL's table synchronization
        (rules D7, D8); 0A000 if the column lists differ. A table that no publication lists any more
        has all columns and rows, as PostgreSQL copies it.
        """
        if not features_of(self.connection).column_lists:
            return PublishedTable(schema, name)
        return _published_table(schema, name, [row[2:] for row in self._of_table(_entries_query, schema, name)])

    def has_column_list(self, schema: str, name: str) -> bool:
        features = features_of(self.connection)
        return features.column_lists and bool(self._of_table(_column_lists_query, schema, name))

    def published_actions(self, schema: str, name: str) -> frozenset[str] | None:
        return _actions(self._of_table(_actions_query, schema, name)).get((schema, name))

    def _of_table(self, query: Callable[[ServerFeatures, str], bytes], schema: str, name: str) -> list[tuple[Any, ...]]:
        text = query(features_of(self.connection), "n.nspname = %s AND c.relname = %s AND ")
        return self.connection.execute(text, (schema, name, list(self.names))).fetchall()

    def sequences(self) -> list[tuple[str, str]]:
        if not features_of(self.connection).published_sequences:
            return []
        query = sql.SQL(
            "SELECT DISTINCT schemaname::text, sequencename::text FROM pg_publication_sequences"
            " WHERE pubname = ANY (%s) ORDER BY 1, 2"
        )
        rows = _receive(self.connection, "list of replicated sequences", query, (list(self.names),))
        return [(schema, name) for schema, name in rows]

    def changing_tables(self) -> frozenset[tuple[str, str]]:
        rows = self.connection.execute(
            "SELECT DISTINCT n.nspname::text, c.relname::text FROM pg_publication p,"
            " LATERAL pg_get_publication_tables(p.pubname) gpt, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = gpt.relid AND p.pubname = ANY (%s) AND (p.pubupdate OR p.pubdelete)",
            (list(self.names),),
        )
        return frozenset((schema, name) for schema, name in rows)


@dataclass(frozen=True, slots=True)
class PublicationsInSnapshot(ServerPublications):
    """Read once for many copies: the server lists all tables of a publication to answer for one."""

    entries: Mapping[tuple[str, str], Sequence[tuple[Any, ...]]] = field(default_factory=dict)
    column_lists: frozenset[tuple[str, str]] = frozenset()
    actions: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, connection: Connection, names: Sequence[str]) -> Self:
        features, entries = features_of(connection), defaultdict[tuple[str, str], list[tuple[Any, ...]]](list)
        actions = _actions(connection.execute(_actions_query(features), (list(names),)))
        if not features.column_lists:
            return cls(connection, names, actions=actions)
        for schema, name, *entry in connection.execute(_entries_query(features), (list(names),)):
            entries[schema, name].append(tuple(entry))
        lists = connection.execute(_column_lists_query(features), (list(names),))
        return cls(connection, names, entries, frozenset((schema, name) for schema, name in lists), actions)

    @override
    def published_table(self, schema: str, name: str) -> PublishedTable:
        return _published_table(schema, name, self.entries.get((schema, name), ()))

    @override
    def has_column_list(self, schema: str, name: str) -> bool:
        return (schema, name) in self.column_lists

    @override
    def published_actions(self, schema: str, name: str) -> frozenset[str] | None:
        return self.actions.get((schema, name))


def _entries_query(features: ServerFeatures, of_table: str = "") -> bytes:
    """What each publication publishes of each table, or of one."""
    # From 18 on, generated columns may be published, and then the list includes them. Before 18,
    # the list includes them although they are not sent.
    sent = "" if features.published_generated_columns else " AND a.attgenerated = ''"
    return (
        "SELECT DISTINCT n.nspname::text, c.relname::text, c.relkind::text,"
        " ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = gpt.relid"
        f"  AND a.attnum > 0 AND NOT a.attisdropped AND (gpt.attrs IS NULL OR a.attnum = ANY (gpt.attrs)){sent}"
        "  ORDER BY a.attnum), pg_get_expr(gpt.qual, gpt.relid)"
        " FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt"
        " JOIN pg_class c ON c.oid = gpt.relid JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE {of_table}p.pubname = ANY (%s) ORDER BY 1, 2, 5"
    ).encode()


def _actions_query(features: ServerFeatures, of_table: str = "") -> bytes:
    """The changes that each publication publishes of each table, or of one."""
    truncate = "p.pubtruncate" if features.published_truncate else "false"
    return (
        "SELECT n.nspname::text, c.relname::text, CASE WHEN p.pubinsert THEN 'insert' END,"
        " CASE WHEN p.pubupdate THEN 'update' END, CASE WHEN p.pubdelete THEN 'delete' END,"
        f" CASE WHEN {truncate} THEN 'truncate' END FROM pg_publication p,"
        " LATERAL pg_get_publication_tables(p.pubname) gpt, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.oid = gpt.relid AND {of_table}p.pubname = ANY (%s)"
    ).encode()


def _actions(rows: Iterable[tuple[Any, ...]]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], frozenset[str]] = {}
    for schema, name, *actions in rows:
        published = {action for action in actions if action is not None}
        found[schema, name] = found.get((schema, name), frozenset()) | published
    return found


def _column_lists_query(_: ServerFeatures, of_table: str = "") -> bytes:
    """The tables that have a column list, or one table if it has one."""
    return (
        "SELECT DISTINCT n.nspname::text, c.relname::text FROM pg_publication_rel r"
        " JOIN pg_publication p ON p.oid = r.prpubid JOIN pg_class c ON c.oid = r.prrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE {of_table}p.pubname = ANY (%s) AND r.prattrs IS NOT NULL"
    ).encode()


def _published_table(schema: str, name: str, rows: Sequence[tuple[Any, ...]]) -> PublishedTable:
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


def _combined(filters: Iterable[str | None]) -> tuple[str, ...]:
    """The filters of all publications that have a table; empty if one has none (rule D8)."""
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
    roots it subscribes to (rule C55). ``known`` tables will not be copied, so they do not count.
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
    return _other_origins(connection, "list of replicated tables", query, names, known)


def publications_of_followed_sequences(
    connection: Connection, names: Sequence[str], known: Collection[tuple[str, str]]
) -> list[str]:
    """The publications with sequences that this server itself follows, other than ``known`` ones.
    Since 19.
    """
    query = sql.SQL(
        "SELECT DISTINCT P.pubname::text FROM pg_publication P, LATERAL pg_get_publication_sequences(P.pubname) GPS"
        " JOIN pg_subscription_rel PS ON GPS.relid = PS.srrelid, pg_class C JOIN pg_namespace N ON N.oid = C.relnamespace"
        " WHERE C.oid = GPS.relid AND P.pubname = ANY (%s)"
        " AND NOT EXISTS (SELECT FROM unnest(%s::text[], %s::text[]) AS k (schema, name)"
        "                 WHERE k.schema = N.nspname AND k.name = C.relname) ORDER BY 1"
    )
    return _other_origins(connection, "list of replicated sequences", query, names, known)


def _other_origins(
    connection: Connection,
    what: str,
    query: sql.Composed | sql.SQL,
    names: Sequence[str],
    known: Collection[tuple[str, str]],
) -> list[str]:
    schemas, relations = [one[0] for one in known], [one[1] for one in known]
    return [row[0] for row in _receive(connection, what, query, (list(names), schemas, relations))]


def _receive(
    connection: Connection, what: str, query: sql.Composed | sql.SQL, arguments: tuple[object, ...]
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


_GENERATED: Final[dict[str, GeneratedColumns]] = {"n": "none", "s": "stored"}


def read_publications(connection: Connection, names: Sequence[str] | None = None) -> list[Publication]:
    """Those that exist, in this order; None: all, by name. Filters are ``pg_get_expr``'s."""
    with connection.transaction():
        connection.execute("SELECT set_config('search_path', '', true)")
        if names is None:
            names = [name for (name,) in connection.execute("SELECT pubname::text FROM pg_publication ORDER BY 1")]
        rows = connection.execute(_publications(features_of(connection)).encode(), (list(names),)).fetchall()
        entries = _entries(connection, [row[0] for row in rows])
        schemas = _schemas(connection, [row[0] for row in rows])
    found = {
        name: Publication(
            name,
            all_tables,
            tuple(entry for entry, excepted in entries[oid] if not excepted),
            tuple(schemas[oid]),
            tuple(entry.key for entry, excepted in entries[oid] if excepted),
            frozenset(operation for operation, sent in zip(OPERATIONS, published, strict=True) if sent),
            via_root,
            _GENERATED[generated],
            all_sequences,
        )
        for oid, name, all_tables, published, via_root, generated, all_sequences in rows
    }
    return [found[name] for name in names if name in found]


def _publications(features: ServerFeatures) -> str:
    truncate = "pubtruncate" if features.published_truncate else "false"
    via_root = "pubviaroot" if features.publish_via_partition_root else "false"
    generated = "pubgencols::text" if features.published_generated_columns else "'n'"
    sequences = "puballsequences" if features.published_sequences else "false"
    return (
        f"SELECT oid::int8, pubname::text, puballtables, ARRAY[pubinsert, pubupdate, pubdelete, {truncate}], {via_root},"
        f" {generated}, {sequences} FROM pg_publication WHERE pubname = ANY (%s)"
    )


def _entries(connection: Connection, oids: list[int]) -> dict[int, list[tuple[TableEntry, bool]]]:
    features = features_of(connection)
    filters = features.row_filters
    where = "pg_get_expr(r.prqual, r.prrelid)" if filters else "NULL::text"
    listed = "r.prattrs::int2[]" if filters else "NULL::int2[]"
    excepted = "r.prexcept" if features.excepted_tables else "false"
    rows = connection.execute(
        f"SELECT r.prpubid::int8, n.nspname::text, c.relname::text, {where}, {listed} IS NOT NULL,"
        " ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = r.prrelid"
        f"  AND a.attnum = ANY ({listed}) ORDER BY a.attnum), {excepted}"
        " FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE r.prpubid::int8 = ANY (%s) ORDER BY r.prrelid".encode(),
        (oids,),
    )
    entries: dict[int, list[tuple[TableEntry, bool]]] = defaultdict(list)
    for publication, schema, name, expression, has_list, columns, is_excepted in rows:
        entry = TableEntry(schema, name, tuple(columns) if has_list else None, expression)
        entries[publication].append((entry, is_excepted))
    return entries


def _schemas(connection: Connection, oids: list[int]) -> dict[int, list[str]]:
    schemas: dict[int, list[str]] = defaultdict(list)
    if not features_of(connection).row_filters:
        return schemas
    rows = connection.execute(
        "SELECT p.pnpubid::int8, n.nspname::text FROM pg_publication_namespace p JOIN pg_namespace n ON n.oid = p.pnnspid"
        " WHERE p.pnpubid::int8 = ANY (%s) ORDER BY n.nspname",
        (oids,),
    )
    for publication, schema in rows:
        schemas[publication].append(schema)
    return schemas
