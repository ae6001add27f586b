"""The properties of a publisher's tables that emulated publications depend on (rules B1, B2, B13,
B29, B35, B37).

The queries work from version 10 on, and run in one snapshot. Expressions are printed with an empty
``search_path``, so that user-defined objects appear with their schema.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from subscriber.filters.builtins import catalog_query
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.publisher_tables import (
    Generated,
    Identity,
    Kind,
    Persistence,
    PublisherColumn,
    PublisherTable,
    PublisherTables,
)

_KINDS: Final[Mapping[str, Kind]] = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
    "S": "sequence",
}
_PERSISTENCES: Final[Mapping[str, Persistence]] = {"p": "permanent", "u": "unlogged", "t": "temporary"}
_IDENTITIES: Final[Mapping[str, Identity]] = {"d": "default", "n": "nothing", "i": "index", "f": "full"}
_GENERATED: Final[Mapping[str, Generated]] = {"": "", "s": "stored", "v": "virtual"}

_FIRST_NORMAL_OID: Final = 16384
_FIRST_UNPINNED_OID: Final = 12000
"""The oids of the system catalogs are lower; their columns are not read. The tables of
information_schema have higher oids, and may be published.
"""

_DEFAULT_COLLATION: Final = 100
_ORDERED_AS_UTF8: Final = frozenset({"UTF8", "LATIN1", "SQL_ASCII"})
"""Encodings in which texts sort by bytes in the same order as in UTF-8, the encoding that this
program uses.
"""


def read_publisher_tables(connection: Connection) -> PublisherTables:
    """Everything in this database that a FROM clause can name: tables, views and sequences. Those
    of the system are without columns.

    Raises:
        psycopg.Error: a query failed.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        encoding, database, role, path, current, schemas = _one(
            connection,
            "SELECT current_setting('server_encoding'), current_database()::text, current_user::text, current_schemas(true)::text[], current_schema()::text,"
            " ARRAY(SELECT nspname::text FROM pg_namespace)",
        )
        connection.execute("SET LOCAL search_path = ''")
        features = features_of(connection)
        counted = features.column_lists and not features.lists_of_live_columns
        relations = connection.execute(
            "SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text,"
            " c.relreplident::text, c.relispartition, c.relnatts FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') ORDER BY c.oid"
        ).fetchall()
        columns, keys, parents = _columns(connection), _identity_keys(connection), _parents(connection)
        bytewise = _bytewise_collations(connection)
        own_objects = connection.execute(catalog_query.own_objects(connection.info.server_version).encode()).fetchall()
    tables = {}
    for oid, schema, name, kind, persistence, identity, is_partition, attributes in relations:
        names = tuple(column.name for column in columns[oid])
        tables[schema, name] = PublisherTable(
            oid,
            schema,
            name,
            _KINDS[kind],
            tuple(columns[oid]),
            identity=_IDENTITIES[identity],
            identity_columns=names if identity == "f" else keys.get(oid, ()),
            parents=tuple(parents[oid]),
            is_partition=is_partition,
            persistence=_PERSISTENCES[persistence],
            is_system=oid < _FIRST_NORMAL_OID,
            attributes=attributes if counted else 0,
        )
    return PublisherTables(
        connection.info.server_version,
        tables,
        bytewise,
        search_path=tuple(path),
        own_objects="\n".join(sorted(line for (line,) in own_objects)),
        schemas=frozenset(schemas),
        current_schema=current,
        database=database,
        role=role,
        encoding=encoding,
    )


def _columns(connection: Connection) -> dict[int, list[PublisherColumn]]:
    """The columns of tables. The expression of a generated column is its default in the catalog."""
    generated = "a.attgenerated::text" if features_of(connection).generated_columns else "''"
    rows = connection.execute(
        f"SELECT a.attrelid::int8, a.attname::text, a.attnum, a.atttypid::int8, a.atttypmod,"
        f" format_type(a.atttypid, a.atttypmod), a.attcollation::int8, {generated},"
        f" CASE WHEN {generated} <> '' THEN pg_get_expr(d.adbin, d.adrelid) END"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p')"
        " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        f" WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid >= {_FIRST_UNPINNED_OID}"
        " ORDER BY a.attrelid, a.attnum".encode()
    )
    columns: dict[int, list[PublisherColumn]] = defaultdict(list)
    for oid, name, number, type_oid, modifier, type_name, collation, made, expression in rows:
        columns[oid].append(
            PublisherColumn(
                name, number, type_oid, modifier, type_name, collation, _GENERATED[made.strip()], expression
            )
        )
    return columns


def _identity_keys(connection: Connection) -> dict[int, tuple[str, ...]]:
    """The columns of each table's replica identity index, as RelationGetIndexList chooses it: a
    deferrable primary key does not count.
    """
    key_columns = "i.indnkeyatts" if features_of(connection).covering_indexes else "i.indnatts"
    rows = connection.execute(
        "SELECT i.indrelid::int8, ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)"
        "  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
        f"  WHERE place <= {key_columns} ORDER BY place)"
        " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
        " WHERE i.indisvalid AND i.indisunique AND i.indimmediate AND i.indpred IS NULL"
        f" AND i.indrelid >= {_FIRST_UNPINNED_OID}"
        " AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END".encode()
    )
    return {oid: tuple(names) for oid, names in rows}


def _parents(connection: Connection) -> dict[int, list[tuple[str, str]]]:
    rows = connection.execute(
        "SELECT i.inhrelid::int8, n.nspname::text, c.relname::text FROM pg_inherits i"
        " JOIN pg_class c ON c.oid = i.inhparent AND c.relkind IN ('r', 'p', 'f')"
        " JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY i.inhrelid, i.inhseqno"
    )
    parents: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for oid, schema, name in rows:
        parents[oid].append((schema, name))
    return parents


def _bytewise_collations(connection: Connection) -> frozenset[int]:
    """Collations that compare by bytes and change the case of ASCII letters only: C and POSIX of
    libc, and C of the builtin provider.

    The other builtin collations also compare by bytes, but change the case of all letters. They are
    therefore not included.
    """
    features = features_of(connection)
    (encoding,) = _one(connection, "SELECT current_setting('server_encoding')")
    if encoding not in _ORDERED_AS_UTF8:
        return frozenset()
    locale = "colllocale" if features.builtin_locale_provider else "NULL"
    rows = connection.execute(
        "SELECT oid::int8 FROM pg_collation WHERE"
        " (collprovider = 'c' AND collcollate IN ('C', 'POSIX') AND collctype IN ('C', 'POSIX'))"
        f" OR (collprovider = 'b' AND {locale} = 'C')".encode()
    )
    found = {oid for (oid,) in rows}
    provider = "datlocprovider" if features.icu_databases else "'c'"
    locale = "datlocale" if features.builtin_locale_provider else "NULL"
    (is_c,) = _one(
        connection,
        f"SELECT CASE {provider} WHEN 'c' THEN datcollate IN ('C', 'POSIX') AND datctype IN ('C', 'POSIX')"
        f" WHEN 'b' THEN {locale} = 'C' ELSE false END FROM pg_database WHERE datname = current_database()",
    )
    return frozenset(found | ({_DEFAULT_COLLATION} if is_c else set()))


def _one(connection: Connection, question: str) -> tuple[Any, ...]:
    row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row
