"""What a target does not get: objects of published tables that ``create_tables`` leaves out, with
the publisher's DDL (indexes, views, triggers, types, partitioned tables, …), and objects of the
database that logical replication does not replicate, by number and name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.shape import RelatedDifference, SchemaDifference
from subscriber.postgres.types.oids import FIRST_NORMAL_OID
from subscriber.publisher.connection import Connection, features_of


def schema_objects(connection: Connection, tables: Sequence[PublishedTable]) -> list[RelatedDifference]:
    """All objects of these tables that ``create_tables`` leaves out for every target."""
    if not tables:
        return []
    with connection.transaction():
        connection.execute("SELECT set_config('search_path', '', true)")
        rows = connection.execute(
            "SELECT c.oid::int8, n.nspname::text, c.relname::text FROM unnest(%s::text[], %s::text[]) AS t (schema, name)"
            " JOIN pg_namespace n ON n.nspname = t.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name",
            ([table.schema for table in tables], [table.name for table in tables]),
        ).fetchall()
        published = {(table.schema, table.name): table for table in tables}
        by_oid = {oid: published[schema, name] for oid, schema, name in rows}
        found = list(_columns(connection, by_oid))
        for kind, (reason, query) in _QUERIES.items():
            for relation, name, ddl in connection.execute(query.encode(), {"oids": list(by_oid)}):
                found.append(RelatedDifference(relation, SchemaDifference(kind, name, ddl, reason)))
    return found


def view_depths(connection: Connection) -> dict[str, int]:
    """The views by name: a view has a greater depth than each view that it reads."""
    return dict(connection.execute(_DEPTHS.encode()).fetchall())


_DEPTHS: Final = """
WITH RECURSIVE reading (view, depth) AS (
  SELECT oid, 1 FROM pg_class WHERE relkind IN ('v', 'm') AND oid >= 16384
  UNION SELECT r.ev_class, v.depth + 1 FROM reading v JOIN pg_depend d ON d.refobjid = v.view
   AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
   JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> v.view)
SELECT n.nspname || '.' || c.relname, max(v.depth) FROM reading v JOIN pg_class c ON c.oid = v.view
 JOIN pg_namespace n ON n.oid = c.relnamespace GROUP BY 1"""

# Objects ------------------------------------------------------------------------------------------

_RELATION: Final = "(n.nspname || '.' || c.relname)"
_FIRST: Final = f'min({_RELATION} COLLATE "C")'
_TABLES: Final = "JOIN pg_class c ON c.oid = {} JOIN pg_namespace n ON n.oid = c.relnamespace"
_CHOSEN: Final = "c.oid = ANY (%(oids)s)"


def _views(kind: str, letter: str) -> str:
    """The query for views that read the tables, directly or through other views."""
    return f"""
WITH RECURSIVE reading (view, base) AS (
  SELECT r.ev_class, d.refobjid FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> d.refobjid
   WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = ANY (%(oids)s)
  UNION SELECT r.ev_class, v.base FROM reading v JOIN pg_depend d ON d.refobjid = v.view
   AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
   JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> v.view)
SELECT {_FIRST}, m.nspname || '.' || v.relname,
 'CREATE {kind} ' || quote_ident(m.nspname) || '.' || quote_ident(v.relname) || E' AS\\n' || pg_get_viewdef(v.oid)
  || coalesce((SELECT string_agg(E'\\n' || pg_get_indexdef(i.indexrelid) || ';', '' ORDER BY i.indexrelid) FROM pg_index i WHERE i.indrelid = v.oid), '')
  || coalesce(E'\\nCOMMENT ON {kind} ' || quote_ident(m.nspname) || '.' || quote_ident(v.relname) || ' IS '
   || quote_literal(obj_description(v.oid, 'pg_class')) || ';', '')
 FROM reading JOIN pg_class v ON v.oid = reading.view JOIN pg_namespace m ON m.oid = v.relnamespace
 {_TABLES.format("reading.base")} WHERE v.relkind = '{letter}' GROUP BY m.nspname, v.relname, v.oid ORDER BY 2"""


_PARTITIONED_TABLES: Final = f"""
WITH RECURSIVE up (leaf, root) AS (
  SELECT oid, oid FROM pg_class WHERE oid = ANY (%(oids)s) AND relispartition
  UNION ALL SELECT u.leaf, i.inhparent FROM up u JOIN pg_class r ON r.oid = u.root AND r.relispartition
   JOIN pg_inherits i ON i.inhrelid = u.root)
SELECT {_FIRST}, m.nspname || '.' || r.relname,
 'CREATE TABLE ' || quote_ident(m.nspname) || '.' || quote_ident(r.relname) || ' (…) PARTITION BY ' || pg_get_partkeydef(r.oid)
 FROM up JOIN pg_class r ON r.oid = up.root AND r.relkind = 'p' AND r.oid <> ALL (%(oids)s)
 JOIN pg_namespace m ON m.oid = r.relnamespace {_TABLES.format("up.leaf")} GROUP BY m.nspname, r.relname, r.oid ORDER BY 2"""

_PARTITIONS: Final = f"""
WITH RECURSIVE below (root, leaf) AS (
  SELECT oid, oid FROM pg_class WHERE oid = ANY (%(oids)s) AND relkind = 'p'
  UNION ALL SELECT b.root, i.inhrelid FROM below b JOIN pg_class up ON up.oid = b.leaf AND up.relkind = 'p'
   JOIN pg_inherits i ON i.inhparent = b.leaf)
SELECT {_RELATION}, m.nspname || '.' || l.relname, 'CREATE TABLE ' || quote_ident(m.nspname) || '.' || quote_ident(l.relname)
  || ' PARTITION OF ' || (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = l.oid) || ' ' || pg_get_expr(l.relpartbound, l.oid)
 FROM below JOIN pg_class l ON l.oid = below.leaf AND l.oid <> below.root JOIN pg_namespace m ON m.oid = l.relnamespace
 {_TABLES.format("below.root")} ORDER BY 1, 2"""

_INHERITANCE: Final = f"""
SELECT {_RELATION}, i.inhparent::regclass::text, 'INHERITS (' || i.inhparent::regclass || ')' FROM pg_inherits i
 {_TABLES.format("i.inhrelid")} WHERE {_CHOSEN} AND NOT c.relispartition ORDER BY 1, 2"""

_INDEXES: Final = f"""
SELECT {_RELATION}, n.nspname || '.' || x.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i
 JOIN pg_class x ON x.oid = i.indexrelid {_TABLES.format("i.indrelid")}
 WHERE {_CHOSEN} AND NOT i.indisunique AND NOT i.indisexclusion ORDER BY 1, 2"""

_TRIGGERS: Final = f"""
SELECT {_RELATION}, t.tgname::text, pg_get_triggerdef(t.oid) FROM pg_trigger t {_TABLES.format("t.tgrelid")}
 WHERE {_CHOSEN} AND NOT t.tgisinternal ORDER BY 1, 2"""

_RULES: Final = f"""
SELECT {_RELATION}, r.rulename::text, pg_get_ruledef(r.oid) FROM pg_rewrite r {_TABLES.format("r.ev_class")}
 WHERE {_CHOSEN} ORDER BY 1, 2"""

_POLICIES: Final = f"""
SELECT {_RELATION}, p.polname::text, concat('CREATE POLICY ', quote_ident(p.polname), ' ON ', c.oid::regclass,
  ' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', ' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')')
 FROM pg_policy p {_TABLES.format("p.polrelid")} WHERE {_CHOSEN} ORDER BY 1, 2"""

_SHARED_SEQUENCES: Final = f"""
SELECT {_FIRST}, m.nspname || '.' || s.relname, 'CREATE SEQUENCE ' || quote_ident(m.nspname) || '.' || quote_ident(s.relname)
 FROM pg_attrdef f JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass
 JOIN pg_class s ON s.oid = d.refobjid AND s.relkind = 'S' JOIN pg_namespace m ON m.oid = s.relnamespace
 {_TABLES.format("f.adrelid")} WHERE {_CHOSEN} GROUP BY m.nspname, s.relname HAVING count(*) > 1 ORDER BY 2"""

_QUERIES: Final[Mapping[str, tuple[str, str]]] = {
    "partitioned table": ("its partitions are published and created as separate tables", _PARTITIONED_TABLES),
    "partition": ("its rows are published and stored as rows of its partitioned table", _PARTITIONS),
    "inheritance": ("tables of the target do not inherit from each other", _INHERITANCE),
    "index": ("only unique keys are created", _INDEXES),
    "view": ("views are not created", _views("VIEW", "v")),
    "materialized view": ("views are not created", _views("MATERIALIZED VIEW", "m")),
    "trigger": ("its effects at the publisher are replicated as changes", _TRIGGERS),
    "rule": ("rules are not created", _RULES),
    "policy": ("row security is not created", _POLICIES),
    "shared sequence": (
        "several columns take values from it at the publisher; in the target each column has a separate counter",
        _SHARED_SEQUENCES,
    ),
}
"""For each kind: the reason why it is left out, and the query for relation, object and DDL."""


# Columns ------------------------------------------------------------------------------------------

_COLUMNS: Final = f"""
SELECT a.attrelid::int8, {_RELATION}, a.attname::text, format_type(a.atttypid, a.atttypmod), <generated>,
 pg_get_expr(f.adbin, f.adrelid),
 CASE WHEN a.attcollation NOT IN (0, t.typcollation) THEN quote_ident(cn.nspname) || '.' || quote_ident(l.collname) END,
 b.oid::int8, b.typtype::text, quote_ident(bn.nspname) || '.' || quote_ident(b.typname), format_type(b.typbasetype, b.typtypmod),
 concat(' DEFAULT ' || b.typdefault, CASE WHEN b.typnotnull THEN ' NOT NULL' END,
  (SELECT string_agg(' CONSTRAINT ' || quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid), '' ORDER BY k.conname)
    FROM pg_constraint k WHERE k.contypid = b.oid AND k.contype = 'c')),
 (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = b.oid),
 (SELECT x.extname::text FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
   WHERE d.classid = 'pg_type'::regclass AND d.objid = b.oid AND d.deptype = 'e')
 FROM pg_attribute a {_TABLES.format("a.attrelid")} JOIN pg_type t ON t.oid = a.atttypid
 JOIN pg_type b ON b.oid = CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN t.typelem ELSE t.oid END
 JOIN pg_namespace bn ON bn.oid = b.typnamespace
 LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
 LEFT JOIN pg_collation l ON l.oid = a.attcollation LEFT JOIN pg_namespace cn ON cn.oid = l.collnamespace
 WHERE {_CHOSEN} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 2, a.attnum"""
_STORAGE: Final = {"s": "STORED", "v": "VIRTUAL"}


def _columns(connection: Connection, tables: Mapping[int, PublishedTable]) -> Iterator[RelatedDifference]:
    """Unpublished, generated there, or of a user-defined type or a collation not their type's."""
    generated = "a.attgenerated::text" if features_of(connection).generated_columns else "''"
    rows = connection.execute(_COLUMNS.replace("<generated>", generated).encode(), {"oids": list(tables)}).fetchall()
    for oid, relation, name, type_name, made, expression, collation, *own_type in rows:
        storage = _STORAGE.get(made.strip())
        clause = "" if storage is None else f" GENERATED ALWAYS AS ({expression}) {storage}"
        sent = tables[oid].columns
        if not (storage is None if sent is None else name in sent):
            kind = "column" if storage is None else "generated column"
            reason = "it is not published, so the target has no such column"
            yield RelatedDifference(relation, SchemaDifference(kind, name, f"{name} {type_name}{clause}", reason))
            continue
        if storage is not None:
            reason = "it is an ordinary column with the publisher's values"
            generated_column = SchemaDifference("generated column", name, f"{name} {type_name}{clause}", reason)
            yield RelatedDifference(relation, generated_column)
        if collation is not None:
            reason = "the column has the target's collation"
            yield RelatedDifference(relation, SchemaDifference("collation", name, f"COLLATE {collation}", reason))
        if own_type[0] >= FIRST_NORMAL_OID:
            reason = "the column has type text, and its values are not checked"
            yield RelatedDifference(relation, SchemaDifference("type", name, _definition(*own_type[1:]), reason))


def _definition(kind: str, name: str, base: str, constraints: str, labels: str | None, extension: str | None) -> str:
    if extension is not None:
        return f"CREATE EXTENSION {extension}"
    match kind:
        case "e":
            return f"CREATE TYPE {name} AS ENUM ({labels or ''})"
        case "d":
            return f"CREATE DOMAIN {name} AS {base}{constraints}"
        case "c":
            return f"CREATE TYPE {name} AS (…)"
        case "r" | "m":
            return f"CREATE TYPE {name} AS RANGE (…)"
        case _:
            return f"CREATE TYPE {name}"


_FIRST_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class UnreplicatedObjects:
    """The objects of one kind: their number, and the first names (unlogged tables as in SQL)."""

    kind: str
    number: int
    names: tuple[str, ...]


_OWN: Final[LiteralString] = (
    "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%%' AND n.nspname NOT LIKE 'pg\\_temp%%'"
)


def _not_of_extension(catalog: LiteralString, oid: LiteralString) -> LiteralString:
    return f"NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = '{catalog}'::regclass AND e.objid = {oid} AND e.deptype = 'e')"


def _relations(kind: LiteralString, letter: LiteralString) -> LiteralString:
    return (
        f"SELECT '{kind}', n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.relkind = '{letter}' AND {_OWN} AND {_not_of_extension('pg_class', 'c.oid')}"
    )


_OBJECTS: Final[tuple[LiteralString, ...]] = (
    _relations("views", "v"),
    _relations("materialized views", "m"),
    _relations("foreign tables", "f"),
    _relations("sequences", "S"),
    (
        "SELECT 'unlogged tables', format('%%I.%%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.relkind = 'r' AND c.relpersistence = 'u' AND {_OWN}"
    ),
    (
        "SELECT 'triggers', n.nspname || '.' || c.relname || '.' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal AND {_OWN}"
    ),
    (
        "SELECT 'rules', n.nspname || '.' || c.relname || '.' || r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class"
        f" JOIN pg_namespace n ON n.oid = c.relnamespace WHERE r.rulename <> '_RETURN' AND {_OWN}"
    ),
    (
        "SELECT 'policies of row security', n.nspname || '.' || c.relname || '.' || p.polname FROM pg_policy p"
        f" JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_OWN}"
    ),
    (
        "SELECT 'functions', n.nspname || '.' || p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
        f" WHERE {_OWN} AND {_not_of_extension('pg_proc', 'p.oid')}"
    ),
    (
        "SELECT 'user-defined types', n.nspname || '.' || t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace"
        f" WHERE t.typtype IN ('e', 'd', 'r') AND {_OWN} AND {_not_of_extension('pg_type', 't.oid')}"
    ),
    "SELECT 'event triggers', evtname::text FROM pg_event_trigger",
    "SELECT 'extensions', extname::text FROM pg_extension WHERE extname <> 'plpgsql'",
    "SELECT 'large objects', oid::text FROM pg_largeobject_metadata",
    "SELECT 'roles', rolname::text FROM pg_roles WHERE rolname NOT LIKE 'pg\\_%%'",
)


def unreplicated_objects(connection: Connection) -> list[UnreplicatedObjects]:
    """What a subscription does not replicate of the database, and of the server's roles."""
    found = []
    for query in _OBJECTS:
        row = connection.execute(
            'SELECT min(kind), count(*), (array_agg(name ORDER BY name COLLATE "C"))[1:%(first)s]'
            f" FROM ({query}) AS o (kind, name)".encode(),
            {"first": _FIRST_NAMES},
        ).fetchone()
        assert row is not None
        if row[1]:
            found.append(UnreplicatedObjects(row[0], row[1], tuple(row[2])))
    return found
