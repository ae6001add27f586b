"""Checks of published tables before a subscription: replica identities, privileges, inheritance,
sizes, row security. The queries work from version 10 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from subscriber.base.errors import PublisherNotReady
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.shape import IndexShape
from subscriber.postgres.sql.quoting import delimited_identifier
from subscriber.publisher.catalog import names_of, read_columns, read_indexes
from subscriber.publisher.connection import Connection, features_of

# Replica identity ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableWithoutIdentity:
    """A table whose rows cannot be identified in the stream: the publisher refuses its UPDATEs and
    DELETEs, from any application, if they are published (rules B32, B33). ``statement`` is the
    ALTER TABLE that sets a replica identity, without a semicolon.
    """

    schema: str
    name: str
    updates: bool
    deletes: bool
    statement: str

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


_WITHOUT_IDENTITY: Final = """
WITH RECURSIVE published (oid, updates, deletes) AS (
  SELECT gpt.relid::oid, p.pubupdate, p.pubdelete FROM pg_publication p, LATERAL pg_get_publication_tables(p.pubname) gpt
   WHERE p.pubname = ANY (%s) AND (p.pubupdate OR p.pubdelete)
  UNION SELECT i.inhrelid, updates, deletes FROM published JOIN pg_class up ON up.oid = published.oid AND up.relkind = 'p'
   JOIN pg_inherits i ON i.inhparent = up.oid)
SELECT c.oid::int8, n.nspname::text, c.relname::text, bool_or(updates), bool_or(deletes)
 FROM published JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND c.relreplident <> 'f' AND pg_get_replica_identity_index(c.oid) IS NULL
 GROUP BY n.nspname, c.relname, c.oid ORDER BY 2, 3"""
"""The server checks each table that has rows (CheckCmdReplicaIdentity): of a partitioned table the
partitions, whether a publication names the table or the partitions.
"""


def tables_without_identity(connection: Connection, publications: Sequence[str]) -> list[TableWithoutIdentity]:
    """Tables and partitions without replica identity whose UPDATEs or DELETEs are published."""
    rows = connection.execute(_WITHOUT_IDENTITY, (list(publications),)).fetchall()
    if not rows:
        return []
    oids = [oid for oid, *_ in rows]
    columns, indexes = read_columns(connection, oids, defaults=True), read_indexes(connection, oids)
    found = []
    for oid, schema, name, updates, deletes in rows:
        required = {column.name for column in columns[oid] if not column.nullable}
        identity = _identity([index for index in indexes[oid] if _identifies_rows(index, required)])
        statement = f"ALTER TABLE {delimited_identifier(schema, name)} REPLICA IDENTITY {identity}"
        found.append(TableWithoutIdentity(schema, name, updates, deletes, statement))
    return found


def _identifies_rows(index: IndexShape, required: set[str]) -> bool:
    return (
        index.unique
        and not index.deferrable
        and index.predicate is None
        and all(key.column in required for key in index.keys)
    )


def _identity(indexes: Sequence[IndexShape]) -> str:
    """The primary key, or else the unique index with the fewest columns, or else all columns."""
    if not indexes:
        return "FULL"
    best = min(indexes, key=lambda index: (index.constraint != "primary key", len(index.keys)))
    return "DEFAULT" if best.constraint == "primary key" else f"USING INDEX {delimited_identifier(best.name)}"


# Privileges ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnreadableTable:
    """A published table that the role may not read; ``grants`` have no semicolons."""

    schema: str
    name: str
    role: str
    grants: tuple[str, ...]

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


def unreadable_tables(connection: Connection, tables: Sequence[PublishedTable]) -> list[UnreadableTable]:
    """Those that the role may not read: SELECT on the columns or the table, and USAGE on its
    schema. A partitioned table that is published as itself is read by its own name.
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
        names_of(tables),
    ).fetchall()
    found = {(schema, name): tuple(row) for schema, name, *row in rows}
    unreadable = []
    for table in tables:
        role, in_schema, whole, closed = found.get(table.key, ("", True, True, []))
        missing = closed if table.columns is None else [column for column in closed if column in table.columns]
        grants, to = [], delimited_identifier(role)
        if not in_schema:
            grants.append(f"GRANT USAGE ON SCHEMA {delimited_identifier(table.schema)} TO {to}")
        if not whole and missing:
            grants.append(f"GRANT SELECT ON TABLE {delimited_identifier(*table.key)} TO {to}")
        if grants:
            unreadable.append(UnreadableTable(table.schema, table.name, role, tuple(grants)))
    return unreadable


def read_refused(table: UnreadableTable) -> PublisherNotReady:
    """The error for a table that cannot be copied, with PostgreSQL's text."""
    what = f"schema {table.schema}" if table.grants[0].startswith("GRANT USAGE") else f"table {table.name}"
    return PublisherNotReady(
        f'could not start initial contents copy for table "{table.qualified_name}": permission denied for {what}',
        sqlstate="42501",
        detail=f'Role "{table.role}" cannot copy table "{table.qualified_name}".',
        hint=f"Run at the publisher: {' '.join(f'{grant};' for grant in table.grants)}",
        relation=table.qualified_name,
    )


# Inheritance --------------------------------------------------------------------------------------

_COUNTED_BYTES: Final = 256 * 2**20
"""Tables of at most this size together are counted; of larger ones the statistics are said."""
_SHOWN: Final = 3

_PARENTS: Final = """
WITH RECURSIVE published (oid) AS (
  SELECT c.oid FROM unnest(%s::text[], %s::text[]) AS t (schema, name)
   JOIN pg_namespace n ON n.nspname = t.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name),
up (child, parent) AS (
  SELECT i.inhrelid, i.inhparent FROM published p JOIN pg_inherits i ON i.inhrelid = p.oid
  UNION SELECT u.child, i.inhparent FROM up u JOIN pg_inherits i ON i.inhrelid = u.parent)
SELECT n.nspname::text, p.relname::text, p.relkind::text = 'p',
 array_agg(json_build_array(m.nspname, c.relname) ORDER BY m.nspname, c.relname),
 sum(greatest(c.reltuples, 0))::int8, sum(pg_table_size(c.oid))::int8, bool_and(has_table_privilege(c.oid, 'SELECT'))
 FROM up u JOIN pg_class p ON p.oid = u.parent AND p.relkind IN ('r', 'p') JOIN pg_namespace n ON n.oid = p.relnamespace
 JOIN pg_class c ON c.oid = u.child AND c.relkind = 'r' JOIN pg_namespace m ON m.oid = c.relnamespace
 WHERE p.relkind = 'r' OR u.parent NOT IN (SELECT oid FROM published)
 GROUP BY u.parent, n.nspname, p.relname, p.relkind ORDER BY 1, 2"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A table from which published tables inherit, or a ``partitioned`` one that is not published
    itself. ``SELECT * FROM parent`` returns other rows than in a target where nothing inherits.
    ``children`` are published tables below it, at any depth, that have rows; ``rows`` is an
    estimate unless ``counted``.
    """

    schema: str
    name: str
    partitioned: bool
    children: tuple[tuple[str, str], ...] = field(repr=False)
    rows: int = 0
    counted: bool = True

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def children_shown(self) -> str:
        names = [".".join(one) for one in self.children[:_SHOWN]]
        more = len(self.children) - _SHOWN
        return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")

    @property
    def rows_shown(self) -> str:
        about = "" if self.counted else "about "
        return f"{about}{self.rows:,} {'row' if self.rows == 1 else 'rows'}"


def read_parents(connection: Connection, tables: Sequence[PublishedTable], *, count: bool = True) -> list[Parent]:
    """The parents of published tables; rows of INHERITS children are counted if not large."""
    found = []
    for row in connection.execute(_PARENTS, names_of(tables)).fetchall():
        schema, name, partitioned, children, estimate, size, readable = row
        below = tuple((str(one[0]), str(one[1])) for one in children)
        counted = readable and not partitioned and count and size <= _COUNTED_BYTES
        number = sum(_count(connection, *one) for one in below) if counted else estimate
        found.append(
            Parent(schema=schema, name=name, partitioned=partitioned, children=below, rows=number, counted=counted)
        )
    return found


def _count(connection: Connection, schema: str, name: str) -> int:
    """The rows of one table, without those of tables that inherit from it."""
    row = connection.execute(f"SELECT count(*) FROM ONLY {delimited_identifier(schema, name)}".encode()).fetchone()
    assert row is not None
    return int(row[0])


# Sizes --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The size of a published table with its partitions; ``rows`` is the planner's estimate. The
    heap includes TOAST (out of line), but no indexes. ``is_hidden``: row security would hide rows
    from a copy without an error.
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
        for schema, name, number, heap, total, out_of_line, hidden in connection.execute(_FACTS, names_of(tables))
    ]
