"""Queries of a PostgreSQL target's system catalogs.

They read columns, keys, partitions and unique indexes. The queries use only names of system
objects, so they have the same meaning with any ``search_path``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from subscriber.targets.postgresql.errors import row_security_error, rule_error
from subscriber.targets.target_table import (
    LeafRouting,
    TableKind,
    TargetColumn,
    TargetTable,
    UniqueIndex,
)

_PARTITION: Final = "tableoid"
"""The pseudo-column that identifies the partition of a row. A ctid is unique only within a
partition.
"""
_KINDS: Final[dict[str, TableKind]] = {"r": "table", "p": "partitioned table", "v": "view"}
_ROUNDED: Final = [1700, 1231, 1043, 1083, 1183, 1114, 1115, 1184, 1185, 1266, 1270, 1186, 1187]
"""Types with a modifier that changes what is stored: numeric, varchar, times and intervals, and
arrays of these.
"""
_MODIFIER: Final = re.compile(r"\(.*\)")
"""The modifier of a declared type. In an array's type it is before the brackets."""
_ALIASES: Final = [24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191]
"""regclass and the other object identifier types, which are compared as OIDs."""

_RELATION: Final = sa.text(
    "SELECT c.oid, c.relkind::text, row_security_active(c.oid) AS is_secured, current_user AS role,"
    " (SELECT min(r.rulename) FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type <> '1'"
    "  AND c.relkind IN ('r', 'p') AND position(r.ev_enabled::text IN CAST(:firing AS text)) > 0) AS rule,"
    # BEFORE (2), FOR EACH ROW (1), UPDATE (16) or DELETE (8).
    " EXISTS (SELECT FROM pg_trigger g"
    "  WHERE (g.tgrelid = c.oid OR c.relkind = 'p' AND g.tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))"
    "  AND g.tgtype & 3 = 3 AND g.tgtype & 24 > 0 AND position(g.tgenabled::text IN CAST(:firing AS text)) > 0) AS may_suppress"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relname = :table AND c.relkind NOT IN ('i', 'I', 'c', 't')"
)
_COLUMNS: Final = sa.text(
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.attgenerated <> '', a.attidentity = 'a',"
    " format_type(b.oid, b.modifier), o.operator,"
    # The type whose binary format the column reads. A domain reads that of its base type. Enums and
    # text types of extensions read text (subscriber.types.binary_forms).
    " CASE WHEN a.atttypid < 10000 THEN a.atttypid::int8 ELSE (WITH RECURSIVE d (oid, base, receive) AS ("
    "   SELECT oid, typbasetype, typreceive FROM pg_type WHERE oid = a.atttypid"
    "   UNION ALL SELECT t.oid, t.typbasetype, t.typreceive FROM d JOIN pg_type t ON t.oid = d.base)"
    "  SELECT CASE WHEN d.receive = 0 THEN 0 WHEN p.prosrc IN ('textrecv', 'enum_recv') THEN 25 ELSE d.oid::int8 END"
    "  FROM d LEFT JOIN pg_proc p ON p.oid = d.receive WHERE d.base = 0) END,"
    # A domain may have a separate default, and may refuse NULL.
    " (SELECT (a.attnotnull OR t.typnotnull) AND NOT a.atthasdef AND a.attidentity = '' AND t.typdefault IS NULL"
    "  FROM pg_type t WHERE t.oid = a.atttypid)"
    " FROM pg_attribute a"
    # The base type without domains. Enums, ranges and arrays are compared by system functions,
    # whatever their element types are.
    " LEFT JOIN LATERAL (WITH RECURSIVE d (oid, base, kind, category, modifier, below) AS ("
    "   SELECT t.oid, t.typbasetype, t.typtype, t.typcategory, a.atttypmod, t.typtypmod FROM pg_type t WHERE t.oid = a.atttypid"
    "   UNION ALL SELECT t.oid, t.typbasetype, t.typtype, t.typcategory, greatest(d.modifier, d.below), t.typtypmod"
    "    FROM d JOIN pg_type t ON t.oid = d.base)"
    "  SELECT d.oid, nullif(d.modifier, -1) AS modifier FROM d WHERE d.base = 0 AND d.kind IN ('b', 'c')"
    "   AND (d.oid >= 16384 AND d.category <> 'A' OR d.modifier >= 0 AND d.oid = ANY (:rounded) OR d.oid = ANY (:aliases))"
    "  ) b ON a.atttypid >= 16384 OR a.atttypmod >= 0 OR a.atttypid = ANY (:aliases)"
    " LEFT JOIN LATERAL (SELECT format('%I.%s', n.nspname, p.oprname) AS operator"
    "  FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod AND m.amname IN ('btree', 'hash')"
    "  JOIN pg_amop f ON f.amopfamily = c.opcfamily AND f.amoplefttype = c.opcintype AND f.amoprighttype = c.opcintype"
    "   AND f.amopstrategy = CASE m.amname WHEN 'btree' THEN 3 ELSE 1 END"
    "  JOIN pg_operator p ON p.oid = f.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace"
    "  WHERE c.opcdefault AND c.opcintype = b.oid ORDER BY m.amname LIMIT 1) o ON b.oid >= 16384"
    " WHERE a.attrelid = :oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
_KEY: Final = sa.text(
    # The local replica identity index, else the primary key (rule C11) unless it is deferrable
    # (rule C13). The column names are read from the table, because an index keeps the names that
    # the columns had when the index was created.
    "SELECT a.attname FROM (SELECT i.indkey, i.indnkeyatts FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
    " WHERE i.indrelid = :oid AND i.indisvalid AND i.indimmediate AND (i.indisprimary OR (i.indisreplident AND c.relreplident = 'i'))"
    " ORDER BY i.indisreplident AND c.relreplident = 'i' DESC LIMIT 1) k"
    " CROSS JOIN unnest(k.indkey[0:k.indnkeyatts - 1]) WITH ORDINALITY AS u (attnum, place)"
    " JOIN pg_attribute a ON a.attrelid = :oid AND a.attnum = u.attnum ORDER BY u.place"
)

_LEAVES: Final = sa.text(
    # For each partition that has rows: its OID, its partition constraint, and its key by the same
    # rule as in _KEY.
    "SELECT c.oid::int8, pg_get_partition_constraintdef(c.oid) AS bounds, (SELECT array_agg(a.attname ORDER BY u.place)"
    "  FROM (SELECT i.indkey, i.indnkeyatts FROM pg_index i WHERE i.indrelid = c.oid AND i.indisvalid AND i.indimmediate"
    "    AND (i.indisprimary OR (i.indisreplident AND c.relreplident = 'i'))"
    "    ORDER BY i.indisreplident AND c.relreplident = 'i' DESC LIMIT 1) k"
    "   CROSS JOIN unnest(k.indkey[0:k.indnkeyatts - 1]) WITH ORDINALITY AS u (attnum, place)"
    "   JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.attnum) AS key"
    " FROM pg_partition_tree(CAST(:oid AS oid)) p JOIN pg_class c ON c.oid = p.relid WHERE p.isleaf ORDER BY c.oid"
)
_PARTITION_COLUMNS: Final = sa.text(
    # A column of the partition key, or of an expression in the partition key, has an internal
    # dependency on its table.
    "SELECT DISTINCT a.attname FROM pg_partition_tree(CAST(:oid AS oid)) p"
    " JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = p.relid AND d.objsubid > 0 AND d.deptype = 'i'"
    "  AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p.relid AND d.refobjsubid = 0"
    " JOIN pg_attribute a ON a.attrelid = p.relid AND a.attnum = d.objsubid ORDER BY a.attname"
)
_UNIQUE_INDEXES: Final = sa.text(
    # In the order in which PostgreSQL stores and checks them. Servers before version 15 do not have
    # NULLS NOT DISTINCT.
    "SELECT c.relname AS name, array_agg(CASE WHEN a.attnum IS NULL THEN pg_get_indexdef(c.oid, k::int, true)"
    "  ELSE a.attname END ORDER BY k) AS keys, array_agg(a.attname ORDER BY k) AS columns,"
    " pg_get_expr(i.indpred, i.indrelid, true) AS predicate,"
    " coalesce(to_jsonb(i) ->> 'indnullsnotdistinct', 'false') = 'false' AS nulls_distinct"
    " FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid"
    " JOIN pg_namespace n ON n.oid = t.relnamespace"
    " CROSS JOIN unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS u (attnum, k)"
    " LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = u.attnum AND u.attnum <> 0"
    " WHERE n.nspname = :schema AND t.relname = :table AND i.indisunique AND i.indimmediate AND i.indislive"
    " GROUP BY c.oid, c.relname, i.indpred, i.indrelid, i.* ORDER BY c.oid"
)


@dataclass(frozen=True, slots=True)
class PostgreSQLColumn(TargetColumn):
    """A column of a PostgreSQL table.

    Attributes:
        binary_form: the type whose binary format the column reads
            (:mod:`subscriber.types.binary_forms`).
        compared_as: the SQL type to which a value is cast before it is compared with the column;
            None if no cast is needed.
        own_operator: the equality operator of a user-defined type (CREATE TYPE, extensions), with
            its schema.
    """

    binary_form: int | None = None
    compared_as: str | None = None
    own_operator: str | None = None


@dataclass(frozen=True, slots=True)
class PostgreSQLTable(TargetTable):
    """A PostgreSQL table.

    Attributes:
        routing: how to find a row's partition if ``key`` is the key of the partitions and the table
            itself has none.
        may_suppress: a BEFORE trigger may return NULL, which leaves a row unchanged without an
            error.
    """

    routing: LeafRouting | None = None
    may_suppress: bool = False


def read_table(connection: sa.Connection, schema: str, table: str, *, fires: str) -> PostgreSQLTable | None:
    """The table, or another relation, with this name; None if there is none.

    Args:
        connection: the connection to use.
        schema: the table's schema.
        table: the table's name.
        fires: the values of ``tgenabled`` and ``ev_enabled`` with which triggers and rules fire in
            the subscriber's sessions.

    Raises:
        TargetRelationError: row-level security, or a rule, would affect the applied changes.
    """
    row = connection.execute(_RELATION, {"schema": schema, "table": table, "firing": fires}).one_or_none()
    if row is None:
        return None
    if row.is_secured:
        raise row_security_error(row.role, table)
    if row.rule is not None:
        raise rule_error(row.rule, table)
    columns = connection.execute(_COLUMNS, {"oid": row.oid, "rounded": _ROUNDED, "aliases": _ALIASES}).all()
    key = tuple(connection.execute(_KEY, {"oid": row.oid}).scalars().all())
    routing = None
    if row.relkind == "p" and not key:
        key, routing = _key_of_leaves(connection, row.oid)
    return PostgreSQLTable(
        schema,
        table,
        tuple(_column(column) for column in columns),
        key or None,
        _KINDS.get(row.relkind, "other"),
        locators=(_PARTITION, "ctid") if row.relkind == "p" else ("ctid",),
        routing=routing,
        may_suppress=row.may_suppress,
    )


def _key_of_leaves(connection: sa.Connection, root: int) -> tuple[tuple[str, ...], LeafRouting | None]:
    """The key that all partitions have, and how to find a row's partition (rules C12, C26).

    This is for a partitioned table that has no key itself. The key is empty if the partitions do
    not all have the same key.
    """
    leaves = connection.execute(_LEAVES, {"oid": root}).all()
    keys = {tuple(leaf.key or ()) for leaf in leaves}
    if len(keys) != 1 or () in keys:
        return (), None
    columns = connection.execute(_PARTITION_COLUMNS, {"oid": root}).scalars().all()
    # A default partition without other partitions accepts every row and has no bounds.
    cases = (f"WHEN {leaf.bounds or 'true'} THEN CAST({leaf.oid} AS pg_catalog.oid)" for leaf in leaves)
    return keys.pop(), LeafRouting(_PARTITION, f"CASE {' '.join(cases)} END", tuple(columns))


def _column(row: Sequence[Any]) -> PostgreSQLColumn:
    name, declared, nullable, generated, identity_always, compared_as, own_operator, binary_form, required = row
    return PostgreSQLColumn(
        name,
        declared,
        _MODIFIER.sub("", declared),
        nullable,
        generated=generated,
        identity_always=identity_always,
        compared_as=compared_as,
        own_operator=own_operator,
        binary_form=binary_form,
        required=required,
    )


def read_unique_indexes(connection: sa.Connection, table: TargetTable) -> Sequence[UniqueIndex]:
    """See :meth:`Shapes.unique_indexes`; includes expressions and predicates."""
    rows = connection.execute(_UNIQUE_INDEXES, {"schema": table.schema, "table": table.name}).all()
    return [
        UniqueIndex(
            row.name,
            tuple(row.keys),
            frozenset(key for key, column in zip(row.keys, row.columns, strict=True) if column is None),
            row.predicate,
            nulls_distinct=row.nulls_distinct,
        )
        for row in rows
    ]
