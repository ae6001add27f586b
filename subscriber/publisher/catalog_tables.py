"""The properties of a publisher's tables that emulated publications depend on (rules B1, B2, B13,
B29, B35, B37), read in one snapshot with an empty ``search_path``, from version 10 on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from subscriber.postgres.expressions.builtin_catalog import own_objects
from subscriber.postgres.expressions.functions.hashes import PROBE as HASH_PROBE
from subscriber.postgres.schema import publisher_tables
from subscriber.postgres.types.oids import FIRST_NORMAL_OID
from subscriber.publisher.catalog import FIRST_UNPINNED_OID, read_tables
from subscriber.publisher.connection import Connection, features_of

_DEFAULT_COLLATION: Final = 100
_ORDERED_AS_UTF8: Final = frozenset({"UTF8", "LATIN1", "SQL_ASCII"})
"""Encodings in which texts sort by bytes in the same order as in UTF-8, the encoding that this
program uses.
"""


def read_publisher_tables(connection: Connection) -> publisher_tables.PublisherTables:
    """Everything in this database that a FROM clause can name; system tables have no columns."""
    known_until = _written(connection)
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        encoding, database, role, path, current, schemas, has_known_hashes = _one(
            connection,
            "SELECT current_setting('server_encoding'), current_database()::text, current_user::text, current_schemas(true)::text[], current_schema()::text,"
            f" ARRAY(SELECT nspname::text FROM pg_namespace), {HASH_PROBE}",
        )
        connection.execute("SET LOCAL search_path = ''")
        found = read_tables(connection)
        bytewise = _bytewise_collations(connection)
        marks = {row[0]: dict(zip(_MARKED, row[-3:], strict=True)) for row in connection.execute(_MARKS.encode())}
        collations = _other_collations(connection, bytewise)
        of_users = connection.execute(own_objects(connection.info.server_version).encode()).fetchall()
    read_at = _flushed(connection)
    return publisher_tables.PublisherTables(
        connection.info.server_version,
        {table.key: replace(table, **marks.get(table.oid, {})) for table in found},
        bytewise,
        search_path=tuple(path),
        own_objects="\n".join(sorted(line for (line,) in of_users)),
        schemas=frozenset(schemas),
        current_schema=current,
        database=database,
        role=role,
        encoding=encoding,
        known_until=known_until,
        read_at=read_at,
        has_known_hashes=has_known_hashes,
        collations=collations,
    )


def _written(connection: Connection) -> int:
    """The end of the WAL; on a standby, of what it has replayed."""
    (position,) = _one(
        connection,
        "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END - '0/0')::int8",
    )
    return int(position)


def _flushed(connection: Connection) -> int:
    """The end of the durable WAL. An empty commit puts all ended transactions before it."""
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit = local")
        connection.execute("SELECT CASE WHEN NOT pg_is_in_recovery() THEN txid_current() END")
    (position,) = _one(
        connection,
        "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END - '0/0')::int8",
    )
    return int(position)


def read_placements(connection: Connection) -> tuple[int, dict[int, publisher_tables.Placement]]:
    """As :meth:`PublisherTables.placements`; and the end of the WAL before they were read."""
    known_until = _written(connection)
    rows = connection.execute(_MARKS.encode()).fetchall()
    return known_until, {
        oid: publisher_tables.Placement((schema, name), parent, placed_by, altered_by if is_partitioned else 0)
        for oid, schema, name, is_partitioned, parent, _, placed_by, altered_by in rows
    }


_MARKS: Final = (
    "SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind = 'p', COALESCE(i.inhparent, 0)::int8,"
    " t.xmin::text::int8, COALESCE(CASE WHEN i.inhrelid IS NULL THEN a.oldest ELSE i.xmin END::text, '0')::int8,"
    " c.xmin::text::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = c.reltype"
    " LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition"
    " LEFT JOIN (SELECT DISTINCT ON (attrelid) attrelid, xmin AS oldest FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped"
    f" AND attrelid >= {FIRST_NORMAL_OID} ORDER BY attrelid, age(xmin) DESC) a ON a.attrelid = c.oid"
    f" WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= {FIRST_NORMAL_OID}"
)
"""ATTACH and DETACH alter every column of a partition, so they are not later than the oldest of its
columns' rows."""
_MARKED: Final = ("created_by", "placed_by", "altered_by")


def _bytewise_collations(connection: Connection) -> frozenset[int]:
    """C and POSIX of libc, C of builtin; builtin's others change the case of all letters."""
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


def _other_collations(
    connection: Connection, bytewise: frozenset[int]
) -> tuple[publisher_tables.PublisherCollation, ...]:
    """The default collation and those of columns, except these."""
    features = features_of(connection)
    own = "locale" if features.builtin_locale_provider else "iculocale"
    of_collation = f"coalesce(c.coll{own}, %s)" if features.icu_databases else "%s"
    of_database = f"coalesce(d.dat{own}, %s)" if features.icu_databases else "%s"
    rules = "icurules" if features.icu_rules else None
    provider = "d.datlocprovider::text" if features.icu_databases else "'c'"
    version = "pg_database_collation_actual_version(d.oid)" if features.icu_databases else "NULL"
    # The rules of the builtin provider are those of the server's version of Unicode.
    if features.builtin_locale_provider:
        version = f"CASE d.datlocprovider WHEN 'b' THEN unicode_version() ELSE {version} END"
        of_collations = (
            "CASE c.collprovider WHEN 'b' THEN unicode_version() ELSE pg_collation_actual_version(c.oid) END"
        )
    else:
        of_collations = "pg_collation_actual_version(c.oid)"
    rows = connection.execute(
        f"SELECT c.oid::int8, c.collname::text, c.collprovider::text, {of_collation % 'c.collcollate'}::text,"
        f" {of_collation % 'c.collctype'}::text, {of_collations}, {f'c.coll{rules}' if rules else 'NULL'}"
        f" FROM pg_collation c WHERE c.collprovider <> 'd' AND c.oid < {FIRST_NORMAL_OID}"
        " AND c.oid IN (SELECT attcollation FROM pg_attribute JOIN pg_class r ON r.oid = attrelid AND relkind IN ('r', 'p')"
        f"  WHERE attrelid >= {FIRST_UNPINNED_OID})"
        f" UNION ALL SELECT {_DEFAULT_COLLATION}, 'default', {provider},"
        f" {of_database % 'd.datcollate'}::text, {of_database % 'd.datctype'}::text, {version}, {f'd.dat{rules}' if rules else 'NULL'}"
        " FROM pg_database d WHERE d.datname = current_database() ORDER BY 1".encode()
    )
    return tuple(publisher_tables.PublisherCollation(*row) for row in rows if row[0] not in bytewise)


def _one(connection: Connection, question: str) -> tuple[Any, ...]:
    row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row
