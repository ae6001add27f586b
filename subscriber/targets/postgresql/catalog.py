"""PostgreSQL's catalogs: tables, sequences, a row's last writer; with any ``search_path``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import REGCLASS
from typing_extensions import override

from subscriber.postgres.schema.shape import SequenceDefinition, SequencePosition
from subscriber.targets import target_table
from subscriber.targets.base.catalog import RowVersions, Sequences, Shapes
from subscriber.targets.base.errors import Errors
from subscriber.targets.postgresql.errors import row_security_error, rule_error
from subscriber.targets.postgresql.transactions import PostgreSQLTransactions

_PARTITION: Final = "tableoid"
"""The pseudo-column that identifies the partition of a row. A ctid is unique only within one."""
_KINDS: Final[dict[str, target_table.TableKind]] = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "S": "sequence",
}
_ROUNDED: Final = [1700, 1231, 1043, 1083, 1183, 1114, 1115, 1184, 1185, 1266, 1270, 1186, 1187]
"""numeric, varchar, times, intervals, and their arrays: a modifier changes what is stored."""
_MODIFIER: Final = re.compile(r"\(.*\)")
"""The modifier of a declared type. In an array's type it is before the brackets."""
_ALIASES: Final = [24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191]
"""regclass and the other object identifier types, which are compared as OIDs."""

_RELATION: Final = sa.text(
    "SELECT n.nspname AS schema, c.relname AS name, c.oid, c.relkind::text,"
    " row_security_active(c.oid) AS is_secured, current_user AS role,"
    " (SELECT min(r.rulename) FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type <> '1'"
    "  AND c.relkind IN ('r', 'p') AND position(r.ev_enabled::text IN CAST(:firing AS text)) > 0) AS rule,"
    # BEFORE (2), FOR EACH ROW (1), UPDATE (16) or DELETE (8).
    " EXISTS (SELECT FROM pg_trigger g"
    "  WHERE (g.tgrelid = c.oid OR c.relkind = 'p' AND g.tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))"
    "  AND g.tgtype & 3 = 3 AND g.tgtype & 24 > 0 AND position(g.tgenabled::text IN CAST(:firing AS text)) > 0) AS may_suppress,"
    " (SELECT ARRAY[m.nspname::text, r.relname::text] FROM pg_class r JOIN pg_namespace m ON m.oid = r.relnamespace"
    "  WHERE c.relispartition AND r.oid = pg_partition_root(c.oid)) AS root"
    " FROM unnest(CAST(:schemas AS text[]), CAST(:tables AS text[])) AS w (schema, name)"
    " JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name"
    " WHERE c.relkind NOT IN ('i', 'I', 'c', 't')"
)
_COLUMNS: Final = sa.text(
    "SELECT a.attrelid, a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.attgenerated <> '', a.attidentity = 'a',"
    " format_type(b.oid, b.modifier), o.operator,"
    # The type whose binary format the column reads. A domain reads that of its base type. Enums and
    # text types of extensions read text (subscriber.postgres.types.binary_forms).
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
    " WHERE a.attrelid = ANY (CAST(:oids AS oid[])) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum"
)
_KEYS: Final = sa.text(
    # The local replica identity index, else the primary key (rule C11) unless it is deferrable
    # (rule C13). The column names are read from the table, because an index keeps the names that
    # the columns had when the index was created.
    "SELECT k.indrelid, a.attname FROM (SELECT DISTINCT ON (i.indrelid) i.indrelid, i.indkey, i.indnkeyatts"
    " FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE i.indrelid = ANY (CAST(:oids AS oid[]))"
    " AND i.indisvalid AND i.indimmediate AND (i.indisprimary OR (i.indisreplident AND c.relreplident = 'i'))"
    " ORDER BY i.indrelid, i.indisreplident AND c.relreplident = 'i' DESC) k"
    " CROSS JOIN unnest(k.indkey[0:k.indnkeyatts - 1]) WITH ORDINALITY AS u (attnum, place)"
    " JOIN pg_attribute a ON a.attrelid = k.indrelid AND a.attnum = u.attnum ORDER BY k.indrelid, u.place"
)

_LEAVES: Final = sa.text(
    # For each partition that has rows: its OID, its partition constraint, and its key by the same
    # rule as in _KEYS.
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
_VERSIONS: Final = sa.text(
    # Everything that the other queries read of a plain table of built-in types (OIDs below 10000).
    # A row of a catalog that is written has another xmin and place. The flags of pg_class that are
    # changed in place only announce rows of other catalogs.
    "SELECT n.nspname AS schema, c.relname AS name, concat_ws(' ', c.oid, c.xmin, c.ctid, n.xmin, n.ctid, current_user,"
    " row_security_active(c.oid), has_table_privilege(c.oid, 'INSERT'), has_table_privilege(c.oid, 'UPDATE'),"
    " has_table_privilege(c.oid, 'DELETE'), EXISTS (SELECT FROM pg_publication),"
    " (SELECT array_agg((a.attnum, a.xmin, a.ctid) ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),"
    " (SELECT array_agg((i.indexrelid, i.xmin, i.ctid) ORDER BY i.indexrelid) FROM pg_index i WHERE i.indrelid = c.oid),"
    " (SELECT array_agg((k.oid, k.xmin, k.ctid) ORDER BY k.oid) FROM pg_constraint k WHERE k.conrelid = c.oid),"
    " (SELECT array_agg((g.oid, g.xmin, g.ctid) ORDER BY g.oid) FROM pg_trigger g WHERE g.tgrelid = c.oid),"
    " (SELECT array_agg((r.oid, r.xmin, r.ctid) ORDER BY r.oid) FROM pg_rewrite r WHERE r.ev_class = c.oid)) AS version"
    " FROM unnest(CAST(:schemas AS text[]), CAST(:tables AS text[])) AS w (schema, name)"
    " JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name"
    " WHERE c.relkind = 'r' AND NOT c.relispartition"
    " AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.atttypid >= 10000)"
)


@dataclass(frozen=True, slots=True)
class PostgreSQLColumn(target_table.TargetColumn):
    """``binary_form`` is the type whose binary format the column reads, ``compared_as`` the SQL
    type to which a value is cast, ``own_operator`` a user-defined type's equality, with its schema.
    """

    binary_form: int | None = None
    compared_as: str | None = None
    own_operator: str | None = None


@dataclass(frozen=True, slots=True)
class PostgreSQLTable(target_table.TargetTable):
    """``routing``: only partitions have the ``key``; ``may_suppress``: a trigger may give NULL."""

    routing: target_table.LeafRouting | None = None
    may_suppress: bool = False


def read_tables(
    connection: sa.Connection, tables: Sequence[tuple[str, str]], *, fires: str
) -> Mapping[tuple[str, str], PostgreSQLTable]:
    """Those that exist. Triggers and rules with the ``fires`` values of ``tgenabled`` and
    ``ev_enabled`` fire. TargetRelationError if row-level security, or a rule, would affect changes.
    """
    place = {"schemas": [schema for schema, _ in tables], "tables": [name for _, name in tables], "firing": fires}
    relations = connection.execute(_RELATION, place).all()
    for row in relations:
        if row.is_secured:
            raise row_security_error(row.role, row.name)
        if row.rule is not None:
            raise rule_error(row.rule, row.name)
    if not relations:
        return {}
    oids = [row.oid for row in relations]
    columns: dict[int, list[PostgreSQLColumn]] = defaultdict(list)
    for oid, *column in connection.execute(_COLUMNS, {"oids": oids, "rounded": _ROUNDED, "aliases": _ALIASES}):
        columns[oid].append(_column(column))
    keys: dict[int, list[str]] = defaultdict(list)
    for oid, name in connection.execute(_KEYS, {"oids": oids}):
        keys[oid].append(name)
    found = {}
    for row in relations:
        key, routing = tuple(keys[row.oid]), None
        if row.relkind == "p" and not key:
            key, routing = _key_of_leaves(connection, row.oid)
        found[row.schema, row.name] = PostgreSQLTable(
            row.schema,
            row.name,
            tuple(columns[row.oid]),
            key or None,
            _KINDS.get(row.relkind, "other"),
            locators=(_PARTITION, "ctid") if row.relkind == "p" else ("ctid",),
            root=None if row.root is None else tuple(row.root),
            routing=routing,
            may_suppress=row.may_suppress,
        )
    return found


def _key_of_leaves(connection: sa.Connection, root: int) -> tuple[tuple[str, ...], target_table.LeafRouting | None]:
    """The key, if all partitions have the same, and how to find a row's partition (C12, C26)."""
    leaves = connection.execute(_LEAVES, {"oid": root}).all()
    keys = {tuple(leaf.key or ()) for leaf in leaves}
    if len(keys) != 1 or () in keys:
        return (), None
    columns = connection.execute(_PARTITION_COLUMNS, {"oid": root}).scalars().all()
    # A default partition without other partitions accepts every row and has no bounds.
    cases = (f"WHEN {leaf.bounds or 'true'} THEN CAST({leaf.oid} AS pg_catalog.oid)" for leaf in leaves)
    return keys.pop(), target_table.LeafRouting(_PARTITION, f"CASE {' '.join(cases)} END", tuple(columns))


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


def read_unique_indexes(
    connection: sa.Connection, table: target_table.TargetTable
) -> Sequence[target_table.UniqueIndex]:
    """Includes expressions and predicates."""
    rows = connection.execute(_UNIQUE_INDEXES, {"schema": table.schema, "table": table.name}).all()
    return [
        target_table.UniqueIndex(
            row.name,
            tuple(row.keys),
            frozenset(key for key, column in zip(row.keys, row.columns, strict=True) if column is None),
            row.predicate,
            nulls_distinct=row.nulls_distinct,
        )
        for row in rows
    ]


# Shapes ----------------------------------------------------------------------------------------


class PostgreSQLShapes(Shapes):
    def __init__(self, errors: Errors, transactions: PostgreSQLTransactions) -> None:
        super().__init__(errors)
        self._transactions = transactions

    @override
    def reflect_all(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], target_table.TargetTable]:
        with self._errors.reporting():
            return read_tables(connection, list(tables), fires=self._transactions.fires)

    @override
    def versions(
        self, connection: sa.Connection, tables: Iterable[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Hashable]:
        """The rows of the system catalogs that describe a table."""
        places = list(tables)
        place = {"schemas": [schema for schema, _ in places], "tables": [name for _, name in places]}
        with self._errors.reporting():
            found = connection.execute(_VERSIONS, place).all()
        return {(row.schema, row.name): (row.version, self._transactions.fires) for row in found}

    @override
    def order_matters(self, connection: sa.Connection, table: target_table.TargetTable) -> bool:
        if isinstance(table, PostgreSQLTable) and table.routing is not None:
            return True
        with self._errors.reporting():
            return is_connected(connection, table, fires=self._transactions.fires)

    @override
    def refuses_rows(self, connection: sa.Connection, table: target_table.TargetTable) -> bool:
        with self._errors.reporting():
            return refuses_rows(connection, table)

    @override
    def unique_indexes(
        self, connection: sa.Connection, table: target_table.TargetTable
    ) -> Sequence[target_table.UniqueIndex]:
        return read_unique_indexes(connection, table)


# Table rules -----------------------------------------------------------------------------------

_CONNECTED: Final = sa.text(
    # The table and its partitions.
    "WITH t (oid) AS (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    "  WHERE n.nspname = :schema AND c.relname = :table), p (oid) AS (SELECT oid FROM t"
    "  UNION SELECT r.relid FROM t CROSS JOIN pg_partition_tree(t.oid) r)"
    " SELECT EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid IN (SELECT oid FROM p)"
    "  AND position(g.tgenabled::text IN CAST(:firing AS text)) > 0)"
    " OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid IN (SELECT oid FROM p) AND (i.indisunique OR i.indisexclusion)"
    "  GROUP BY i.indrelid HAVING count(*) > :keys)"
    # Two texts that differ may be equal under such a collation, which servers from 12 on have.
    " OR EXISTS (SELECT FROM pg_attribute a JOIN pg_collation o ON o.oid = a.attcollation"
    "  WHERE a.attrelid IN (SELECT oid FROM t) AND to_jsonb(o) ->> 'collisdeterministic' = 'false')"
    # What happens in a foreign table is not known.
    " OR EXISTS (SELECT FROM pg_class c WHERE c.oid IN (SELECT oid FROM p) AND c.relkind = 'f')"
)
_ONE_BY_ONE: Final = sa.text(
    # A trigger may see a table in which only some of the rows are written.
    "SELECT EXISTS (SELECT FROM pg_trigger g"
    "  WHERE (g.tgrelid = c.oid OR c.relkind = 'p' AND g.tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid)))"
    "  AND position(g.tgenabled::text IN CAST(:firing AS text)) > 0) AS fires,"
    # A value of the table's row type must have a value of such a domain.
    " EXISTS (WITH RECURSIVE d (oid) AS (SELECT a.atttypid FROM pg_attribute a"
    "   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    "  UNION SELECT t.typbasetype FROM d JOIN pg_type t ON t.oid = d.oid WHERE t.typbasetype <> 0)"
    "  SELECT FROM d JOIN pg_type t ON t.oid = d.oid WHERE t.typnotnull) AS requires"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :table"
)
_REFUSES: Final = sa.text(
    # Constraints other than the key and NOT NULL, which may be a constraint from 18 on.
    "SELECT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype NOT IN ('p', 'u', 'n'))"
    # An index computes something, or limits the length of a value.
    " OR EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indpred IS NOT NULL OR i.indexprs IS NOT NULL))"
    " OR EXISTS (SELECT FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam"
    "  CROSS JOIN unnest(i.indkey) AS u (attnum) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.attnum"
    "  WHERE i.indrelid = c.oid AND NOT i.indisunique AND (a.attlen < 0 OR m.amname NOT IN ('btree', 'hash', 'brin')))"
    # A long value is stored outside of the row, which keeps a pointer of 18 bytes to it.
    " OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
    "  AND (a.attgenerated <> '' OR a.attlen < 0 AND a.attstorage = 'p'))"
    " OR (SELECT sum(CASE WHEN a.attlen < 0 THEN 18 ELSE a.attlen + 8 END) FROM pg_attribute a"
    "  WHERE a.attrelid = c.oid AND a.attnum > 0) > 7000"
    # Each action needs its privilege. A publication may refuse to pass on UPDATE and DELETE.
    " OR NOT (has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))"
    " OR EXISTS (SELECT FROM pg_publication)"
    # Another encoding lacks characters, and servers before 14 lack infinite numerics.
    " OR pg_encoding_to_char((SELECT encoding FROM pg_database WHERE datname = current_database())) <> 'UTF8'"
    " OR CAST(current_setting('server_version_num') AS int) < 140000"
    # A partition has its own constraints.
    " OR c.relkind <> 'r'"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :table"
)


def is_connected(connection: sa.Connection, table: target_table.TargetTable, *, fires: str) -> bool:
    """Whether there is a trigger that fires, a unique key or exclusion constraint beside the key,
    or a column whose collation is not deterministic; also in a partition.
    """
    place = {"schema": table.schema, "table": table.name, "firing": fires, "keys": int(table.key is not None)}
    return bool(connection.execute(_CONNECTED, place).scalar_one())


def takes_many_rows(connection: sa.Connection, table: target_table.TargetTable, *, fires: str, as_rows: bool) -> bool:
    """Whether a statement for many rows does the same as a statement for each row."""
    place = {"schema": table.schema, "table": table.name, "firing": fires}
    found = connection.execute(_ONE_BY_ONE, place).one()
    return not (found.fires or (as_rows and found.requires))


def refuses_rows(connection: sa.Connection, table: target_table.TargetTable) -> bool:
    """See :meth:`Shapes.refuses_rows`; also true if the subscriber's role lacks a privilege."""
    return bool(connection.execute(_REFUSES, {"schema": table.schema, "table": table.name}).scalar_one())


# Sequences -------------------------------------------------------------------------------------

_SEQUENCE: Final = sa.text(
    # The sequence that the column owns (serial: 'a', identity: 'i'), else the only sequence that
    # the default's expression names. A partition takes the values of its root, through which an
    # application inserts, and owns no identity sequence since version 17.
    "WITH t (oid, depth) AS (SELECT c.oid, 0 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    "  WHERE n.nspname = :schema AND c.relname = :table), line (oid, depth) AS (SELECT oid, 0 FROM t"
    "  UNION ALL SELECT a.relid, a.depth FROM t CROSS JOIN pg_partition_ancestors(t.oid) WITH ORDINALITY AS a (relid, depth)"
    "   WHERE a.depth > 1)"
    " SELECT s.oid::regclass::text AS name, format_type(q.seqtypid, NULL) AS type_name, q.* FROM line"
    " JOIN pg_attribute a ON a.attrelid = line.oid AND a.attname = :column AND NOT a.attisdropped"
    " LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum"
    " JOIN pg_depend d ON (d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass"
    "  AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.deptype IN ('a', 'i'))"
    "  OR (d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass)"
    " JOIN pg_class s ON s.relkind = 'S' AND s.oid = CASE WHEN d.refobjid = a.attrelid THEN d.objid ELSE d.refobjid END"
    " JOIN pg_sequence q ON q.seqrelid = s.oid ORDER BY line.depth DESC, d.refobjid = a.attrelid LIMIT 1"
)
_NAMED_SEQUENCE: Final = sa.text(
    "SELECT s.oid::regclass::text AS name, format_type(q.seqtypid, NULL) AS type_name, q.* FROM pg_class s"
    " JOIN pg_namespace n ON n.oid = s.relnamespace JOIN pg_sequence q ON q.seqrelid = s.oid"
    " WHERE n.nspname = :schema AND s.relname = :name"
)


class PostgreSQLSequences(Sequences):
    @override
    def of_column(
        self, connection: sa.Connection, table: target_table.TargetTable, column: str
    ) -> target_table.TargetSequence | None:
        with self._errors.reporting():
            place = {"schema": table.schema, "table": table.name, "column": column}
            return _sequence(connection, connection.execute(_SEQUENCE, place).one_or_none())

    @override
    def named(self, connection: sa.Connection, schema: str, name: str) -> target_table.TargetSequence | None:
        with self._errors.reporting():
            found = connection.execute(_NAMED_SEQUENCE, {"schema": schema, "name": name}).one_or_none()
            return _sequence(connection, found)

    @override
    def widening(self, sequence: target_table.TargetSequence, position: SequencePosition) -> str | None:
        turned = position.increment * sequence.position.increment < 0
        step = f" INCREMENT BY {position.increment}" if turned else ""
        return f"ALTER SEQUENCE {sequence.name} AS bigint{step} MINVALUE {-(2**63)} MAXVALUE {2**63 - 1};"

    @override
    def set(self, connection: sa.Connection, sequence: target_table.TargetSequence, position: SequencePosition) -> None:
        with self._errors.reporting():
            connection.execute(
                sa.select(sa.func.setval(sa.cast(sequence.name, REGCLASS), position.last_value, position.is_called))
            )


def _sequence(connection: sa.Connection, row: sa.Row[Any] | None) -> target_table.TargetSequence | None:
    if row is None:
        return None
    # The name has the form of regclass: quoted, with its schema.
    written = str(row.name).replace("%", "%%")
    last, called = connection.exec_driver_sql(f"SELECT last_value, is_called FROM {written}").one()
    position = SequencePosition(last_value=last, is_called=called, increment=row.seqincrement)
    definition = SequenceDefinition(row.type_name, row.seqstart, row.seqincrement, row.seqmin, row.seqmax, row.seqcycle)
    return target_table.TargetSequence(row.name, position, row.seqmin, row.seqmax, definition=definition)


# Row versions ----------------------------------------------------------------------------------

_ROW_VERSION: Final = sa.text(
    # CASE: the function raises an error if commit times are not recorded.
    "SELECT v.timestamp::text AS at, CASE WHEN v.roident <> 0 THEN coalesce(o.roname, '') END AS origin, n.nspname, c.relname"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " LEFT JOIN LATERAL (SELECT * FROM pg_xact_commit_timestamp_origin(CAST(:xmin AS xid))"
    "  WHERE current_setting('track_commit_timestamp') = 'on') v ON true"
    " LEFT JOIN pg_replication_origin o ON o.roident = v.roident WHERE c.oid = CAST(:place AS oid)"
)
_INDEX_OF_PARTITION: Final = sa.text(
    "WITH RECURSIVE below (indexrelid) AS (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    "  WHERE n.nspname = :schema AND c.relname = :index"
    " UNION ALL SELECT h.inhrelid FROM pg_inherits h JOIN below b ON h.inhparent = b.indexrelid)"
    " SELECT c.relname FROM below JOIN pg_index i USING (indexrelid) JOIN pg_class c ON c.oid = i.indexrelid"
    " JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace"
    " WHERE n.nspname = :leaf_schema AND t.relname = :leaf"
)


class PostgreSQLRowVersions(RowVersions):
    @override
    def columns(self) -> Sequence[sa.ColumnElement[Any]]:
        return sa.literal_column("xmin::text"), sa.literal_column("tableoid::text")

    @override
    def read(
        self, connection: sa.Connection, table: target_table.TargetTable, values: Sequence[str | None]
    ) -> target_table.RowVersion | None:
        """The commit time and the origin are known only with ``track_commit_timestamp``."""
        transaction, place = values
        row = connection.execute(_ROW_VERSION, {"xmin": transaction, "place": place}).one()
        leaf = (row.nspname, row.relname) if table.kind == "partitioned table" else None
        return target_table.RowVersion(int(str(transaction)), row.at, row.origin, leaf)

    @override
    def index_of_partition(
        self, connection: sa.Connection, table: target_table.TargetTable, index: str, leaf: tuple[str, str]
    ) -> str:
        """Also for partitions of partitions."""
        place = {"schema": table.schema, "index": index, "leaf_schema": leaf[0], "leaf": leaf[1]}
        return str(connection.execute(_INDEX_OF_PARTITION, place).scalar_one_or_none() or index)
