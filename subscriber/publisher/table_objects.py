"""What belongs to published tables beside their shapes: indexes, user-defined types, comments,
partitions, functions that they call; and sequences that no column owns. The queries work from
version 10 on, in one transaction with an empty ``search_path``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.shape import Partition, StandaloneSequence, UserFunction, UserType
from subscriber.postgres.types.oids import FIRST_NORMAL_OID
from subscriber.publisher.catalog import read_indexes
from subscriber.publisher.connection import Connection
from subscriber.publisher.shapes import read_shapes


def read_table_objects(connection: Connection, tables: Sequence[PublishedTable]) -> list[PublisherTable]:
    """The shapes of those of these tables that exist, with all that belongs to them, in order."""
    shapes = {shape.key: shape for shape in read_shapes(connection, [one.key for one in tables]).values()}
    found = [shapes[table.key] for table in tables if table.key in shapes]
    oids = [shape.oid for shape in found]
    with connection.transaction():
        _clear_search_path(connection)
        indexes, comments = read_indexes(connection, oids), _comments(connection, oids)
        types, keys = _types_of_columns(connection, oids), _partition_keys(connection, oids)
        partitions = {oid: tuple(_partitions(connection, oid)) for oid in keys}
        calls = _read_calls(connection, oids)
    return [
        replace(
            shape,
            indexes=tuple(indexes[oid]),
            types=types[oid],
            comment=comments[oid].get(""),
            column_comments={name: text for name, text in comments[oid].items() if name},
            partition_key=keys.get(oid, ""),
            partitions=partitions.get(oid, ()),
            identity_index=next((one.name for one in indexes[oid] if one.is_identity), ""),
            calls=calls.get(oid, {}),
        )
        for oid, shape in zip(oids, found, strict=True)
    ]


def _clear_search_path(connection: Connection) -> None:
    connection.execute("SELECT set_config('search_path', '', true)")


def read_lone_sequences(connection: Connection) -> list[StandaloneSequence]:
    """The sequences of the database that no column owns, without those of extensions."""
    rows = connection.execute(
        "SELECT n.nspname::text, c.relname::text, format('AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s %s',"
        " format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache,"
        " CASE WHEN s.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)"
        " FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relpersistence <> 't' AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass"
        " AND d.objid = c.oid AND d.deptype IN ('a', 'i', 'e')) ORDER BY 1, 2"
    ).fetchall()
    return [StandaloneSequence(*row) for row in rows]


# Comments and partitions --------------------------------------------------------------------------


def _comments(connection: Connection, oids: Collection[int]) -> dict[int, dict[str, str]]:
    """The comments by table and column; the table's own comment has an empty name."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    for oid, column, text in connection.execute(
        "SELECT d.objoid::int8, coalesce(a.attname::text, ''), d.description FROM pg_description d"
        " LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0"
        " WHERE d.classoid = 'pg_class'::regclass AND d.objoid = ANY (%s)",
        (list(oids),),
    ):
        found[oid][column] = text
    return found


def _partition_keys(connection: Connection, oids: Collection[int]) -> dict[int, str]:
    rows = connection.execute(
        "SELECT oid::int8, pg_get_partkeydef(oid) FROM pg_class WHERE relkind = 'p' AND oid = ANY (%s)", (list(oids),)
    )
    return dict(rows.fetchall())


def _partitions(connection: Connection, root: int) -> Iterator[Partition]:
    rows = connection.execute(
        """
WITH RECURSIVE below (oid, parent, depth) AS (
  SELECT inhrelid, inhparent, 1 FROM pg_inherits WHERE inhparent = %s
  UNION ALL SELECT i.inhrelid, i.inhparent, depth + 1 FROM below b JOIN pg_inherits i ON i.inhparent = b.oid)
SELECT n.nspname::text, c.relname::text, pn.nspname::text, p.relname::text, pg_get_expr(c.relpartbound, c.oid),
 CASE WHEN c.relkind = 'p' THEN pg_get_partkeydef(c.oid) ELSE '' END
 FROM below JOIN pg_class c ON c.oid = below.oid JOIN pg_namespace n ON n.oid = c.relnamespace
 JOIN pg_class p ON p.oid = below.parent JOIN pg_namespace pn ON pn.oid = p.relnamespace ORDER BY depth, 1, 2""",
        (root,),
    )
    for schema, name, parent_schema, parent, bound, key in rows:
        yield Partition(schema, name, (parent_schema, parent), bound, key)


# Types --------------------------------------------------------------------------------------------


def _types_of_columns(connection: Connection, oids: Collection[int]) -> dict[int, dict[str, tuple[UserType, bool]]]:
    rows = connection.execute(
        "SELECT a.attrelid::int8, a.attname::text, (t.typelem <> 0 AND t.typlen = -1 AND t.typtype = 'b'),"
        " (CASE WHEN t.typelem <> 0 AND t.typlen = -1 AND t.typtype = 'b' THEN t.typelem ELSE t.oid END)::int8"
        " FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
        " WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum",
        (list(oids),),
    ).fetchall()
    types: dict[int, UserType] = {}
    found: dict[int, dict[str, tuple[UserType, bool]]] = defaultdict(dict)
    for oid, column, is_array, type_oid in rows:
        if type_oid >= FIRST_NORMAL_OID:
            found[oid][column] = _read_type(connection, type_oid, types), is_array
    return found


def read_types(connection: Connection, oids: Collection[int]) -> dict[int, UserType]:
    types: dict[int, UserType] = {}
    with connection.transaction():
        _clear_search_path(connection)
        for oid in sorted(oids):
            _read_type(connection, oid, types)
    return types


_NAMED: Final = """CASE {0}.{1}classid WHEN 'pg_proc'::regclass THEN {0}.{1}objid::regprocedure::text
  WHEN 'pg_collation'::regclass THEN (SELECT 'collation ' || quote_ident(m.nspname) || '.' || quote_ident(o.collname)
   FROM pg_collation o JOIN pg_namespace m ON m.oid = o.collnamespace WHERE o.oid = {0}.{1}objid)
  WHEN 'pg_ts_config'::regclass THEN 'text search configuration ' || {0}.{1}objid::regconfig::text
  WHEN 'pg_ts_dict'::regclass THEN 'text search dictionary ' || {0}.{1}objid::regdictionary::text END"""
"""The name of an object that is called, as in :class:`UserFunction`."""
_OBJECT: Final = _NAMED.format("d", "")
_REFERENCED: Final = _NAMED.format("d", "ref")
_CLASSES: Final = "('pg_proc'::regclass, 'pg_collation'::regclass, 'pg_ts_config'::regclass, 'pg_ts_dict'::regclass)"
_CALLED: Final = f"d.refclassid IN {_CLASSES} AND d.refobjid >= {FIRST_NORMAL_OID}"
_CALLS_OF_TYPE: Final = f"""
ARRAY(SELECT DISTINCT d.refobjid::regprocedure::text FROM pg_depend d WHERE {_CALLED} AND d.refclassid = 'pg_proc'::regclass
  AND (d.classid = 'pg_type'::regclass AND d.objid = t.oid AND t.typtype = 'd'
   OR d.classid = 'pg_constraint'::regclass AND d.objid IN (SELECT k.oid FROM pg_constraint k WHERE k.contypid = t.oid))
  ORDER BY 1)"""
"""The functions that a domain ``t`` calls, as an expression of a query."""

_TYPE: Final = f"""
SELECT n.nspname::text, t.typname::text, quote_ident(n.nspname) || '.' || quote_ident(t.typname), t.typtype::text, t.typbasetype::int8,
 format_type(t.typbasetype, t.typtypmod), t.typnotnull, t.typdefault,
 ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
 (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid),
 (SELECT json_agg(json_build_array(k.conname, pg_get_expr(k.conbin, 0), quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid)) ORDER BY k.conname)
  FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c' AND k.convalidated),
 (SELECT json_agg(json_build_array(k.conname, quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid)) ORDER BY k.conname)
  FROM pg_constraint k WHERE k.contypid = t.oid AND k.contype = 'c' AND NOT k.convalidated),
 (SELECT json_agg(json_build_array(a.atttypid::int8, quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod)) ORDER BY a.attnum)
  FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped),
 (SELECT json_build_array(r.rngsubtype::int8, 'subtype = ' || format_type(r.rngsubtype, NULL)) FROM pg_range r WHERE r.rngtypid = t.oid),
 (SELECT quote_ident(x.extname) FROM pg_depend d JOIN pg_extension x ON x.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
  WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'),
 {_CALLS_OF_TYPE}
 FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = %s"""


def _read_type(connection: Connection, oid: int, known: dict[int, UserType]) -> UserType:
    """A type, after those that it is made of, which are added to ``known`` too."""
    if oid not in known:
        row = connection.execute(_TYPE, (oid,)).fetchone()
        assert row is not None
        known[oid] = _type(connection, oid, row, known)
    return known[oid]


def _type(connection: Connection, oid: int, row: tuple[Any, ...], known: dict[int, UserType]) -> UserType:
    schema, name, written, letter, base, base_name, not_null, default, *rest = row
    labels, label_list, checks, unmet, columns, span, extension, calls = rest
    made = UserType(oid=oid, schema=schema, name=name, kind="other")
    if extension is not None:
        return replace(made, kind="extension", ddl=f"CREATE EXTENSION IF NOT EXISTS {extension}")
    match letter:
        case "e":
            return replace(
                made, kind="enum", ddl=f"CREATE TYPE {written} AS ENUM ({label_list or ''})", labels=tuple(labels)
            )
        case "d":
            below = _read_type(connection, base, known) if base >= FIRST_NORMAL_OID else None
            clauses = [f" DEFAULT {default}" if default else "", " NOT NULL" if not_null else ""]
            clauses += [f" CONSTRAINT {ddl}" for _, _, ddl in checks or ()]
            return replace(
                made,
                kind="domain",
                ddl=f"CREATE DOMAIN {written} AS {base_name}{''.join(clauses)}",
                base=base if below is None else below.base or below.oid,
                checks=(*(below.checks if below else ()), *((label, text) for label, text, _ in checks or ())),
                unmet=(
                    *(below.unmet if below else ()),
                    *((label, f"ALTER DOMAIN {written} ADD CONSTRAINT {text}") for label, text in unmet or ()),
                ),
                nullable=not not_null and (below is None or below.nullable),
                needs=() if below is None else (below,),
                calls=tuple(calls),
            )
        case "c":
            needs = tuple(_read_type(connection, other, known) for other, _ in columns if other >= FIRST_NORMAL_OID)
            return replace(
                made,
                kind="composite",
                ddl=f"CREATE TYPE {written} AS ({', '.join(text for _, text in columns)})",
                needs=needs,
            )
        case "r" if span is not None and span[0] < FIRST_NORMAL_OID:
            return replace(made, kind="range", ddl=f"CREATE TYPE {written} AS RANGE ({span[1]})")
    return made


_CALLS: Final = f"""
SELECT x.relation::int8, x.kind, x.name, {_REFERENCED} AS called
 FROM (SELECT f.adrelid AS relation, 'default' AS kind, a.attname::text AS name, 'pg_attrdef'::regclass AS class, f.oid
        FROM pg_attrdef f JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
  UNION ALL SELECT k.conrelid, 'check', k.conname::text, 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE k.contype = 'c'
  UNION ALL SELECT i.indrelid, 'index', c.relname::text, 'pg_class'::regclass, c.oid
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  UNION ALL SELECT t.tgrelid, 'trigger', t.tgname::text, 'pg_trigger'::regclass, t.oid FROM pg_trigger t WHERE NOT t.tgisinternal
  UNION ALL SELECT c.oid, 'partitions', '', 'pg_class'::regclass, c.oid FROM pg_class c WHERE c.relkind = 'p') x
 JOIN pg_depend d ON d.classid = x.class AND d.objid = x.oid AND {_CALLED}
 WHERE x.relation = ANY (%s)
  AND (d.refclassid <> 'pg_collation'::regclass OR x.kind <> 'index' OR pg_get_indexdef(x.oid) LIKE '%% COLLATE %%')
 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""

_OF_USERS: Final = "n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"
_FUNCTIONS: Final = f"""
SELECT p.oid::regprocedure::text,
 CASE WHEN x.extname IS NOT NULL THEN 'CREATE EXTENSION IF NOT EXISTS ' || quote_ident(x.extname)
  WHEN EXISTS (SELECT FROM pg_aggregate g WHERE g.aggfnoid = p.oid) THEN '' ELSE pg_get_functiondef(p.oid) END,
 x.extname IS NOT NULL, n.nspname::text, p.proname::text, CASE WHEN x.extname IS NULL THEN p.prosrc ELSE '' END,
 ARRAY(SELECT DISTINCT (CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN t.typelem ELSE t.oid END)::int8 FROM pg_depend d
   JOIN pg_type t ON t.oid = d.refobjid LEFT JOIN pg_class c ON c.oid = t.typrelid
   WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_type'::regclass AND t.oid >= {FIRST_NORMAL_OID}
    AND (c.oid IS NULL OR c.relkind = 'c'))
 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 LEFT JOIN pg_depend e ON e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e'
 LEFT JOIN pg_extension x ON x.oid = e.refobjid
 WHERE {_OF_USERS} ORDER BY p.oid"""
_NEEDS: Final = f"""
SELECT {_OBJECT}, {_REFERENCED} FROM pg_depend d
 WHERE d.classid IN {_CLASSES} AND d.objid >= {FIRST_NORMAL_OID} AND {_CALLED} AND (d.classid, d.objid) <> (d.refclassid, d.refobjid)
 ORDER BY 1, 2"""
_NOT_OF_EXTENSION: Final = (
    "NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = '{}'::regclass AND e.objid = {}.oid AND e.deptype = 'e')"
)
_OTHERS: Final[tuple[str, ...]] = (
    # Servers before version 12 have deterministic collations only, and the locale of ICU has had
    # three names.
    f"""
SELECT 'collation ' || name, concat('CREATE COLLATION ', name, ' (provider = ',
  CASE j ->> 'collprovider' WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
  CASE WHEN j ->> 'collprovider' = 'c' THEN format(', lc_collate = %%L, lc_ctype = %%L', j ->> 'collcollate', j ->> 'collctype')
   ELSE format(', locale = %%L', coalesce(j ->> 'colllocale', j ->> 'colliculocale', j ->> 'collcollate')) END,
  CASE WHEN j ->> 'collisdeterministic' = 'false' THEN ', deterministic = false' END,
  ', rules = ' || quote_literal(j ->> 'collicurules'), ')'), schema
 FROM (SELECT to_jsonb(o) AS j, quote_ident(n.nspname) || '.' || quote_ident(o.collname) AS name, n.nspname::text AS schema
  FROM pg_collation o JOIN pg_namespace n ON n.oid = o.collnamespace
  WHERE {_OF_USERS} AND {_NOT_OF_EXTENSION.format("pg_collation", "o")}) AS c ORDER BY 1""",
    f"""
SELECT 'text search dictionary ' || o.oid::regdictionary::text, format('CREATE TEXT SEARCH DICTIONARY %%s (TEMPLATE = %%I.%%I%%s)',
  o.oid::regdictionary, m.nspname, t.tmplname, ', ' || o.dictinitoption), n.nspname::text
 FROM pg_ts_dict o JOIN pg_namespace n ON n.oid = o.dictnamespace JOIN pg_ts_template t ON t.oid = o.dicttemplate
 JOIN pg_namespace m ON m.oid = t.tmplnamespace WHERE {_OF_USERS} AND {_NOT_OF_EXTENSION.format("pg_ts_dict", "o")} ORDER BY 1""",
    f"""
SELECT 'text search configuration ' || o.oid::regconfig::text,
 format('CREATE TEXT SEARCH CONFIGURATION %%s (PARSER = %%I.%%I)', o.oid::regconfig, m.nspname, p.prsname)
  || coalesce((SELECT string_agg(format(E';\nALTER TEXT SEARCH CONFIGURATION %%s ADD MAPPING FOR %%s WITH %%s', o.oid::regconfig, k.alias, k.dicts), '' ORDER BY k.alias)
   FROM (SELECT a.alias, string_agg(g.mapdict::regdictionary::text, ', ' ORDER BY g.mapseqno) AS dicts FROM pg_ts_config_map g
    JOIN ts_token_type(o.cfgparser) a ON a.tokid = g.maptokentype WHERE g.mapcfg = o.oid GROUP BY a.alias) k), ''), n.nspname::text
 FROM pg_ts_config o JOIN pg_namespace n ON n.oid = o.cfgnamespace JOIN pg_ts_parser p ON p.oid = o.cfgparser
 JOIN pg_namespace m ON m.oid = p.prsnamespace WHERE {_OF_USERS} AND {_NOT_OF_EXTENSION.format("pg_ts_config", "o")} ORDER BY 1""",
)
"""Collations, dictionaries and configurations: name, statements and schema."""
_CALL: Final = re.compile(r'(?:"((?:[^"]|"")+)"|([A-Za-z_][\w$]*))\s*\(')
"""A call in the text of a function."""


def _read_calls(connection: Connection, oids: Collection[int]) -> dict[int, Mapping[tuple[str, str], tuple[str, ...]]]:
    """The user-defined functions that the objects call, as in :attr:`PublisherTable.calls`."""
    found: dict[int, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for oid, kind, name, function in connection.execute(_CALLS.encode(), (list(oids),)):
        found[oid][kind, name].append(function)
    return {oid: {of: tuple(names) for of, names in calls.items()} for oid, calls in found.items()}


def read_functions(connection: Connection) -> list[UserFunction]:
    """By their creation, then collations and text search objects. In a body that is text, a
    function counts as called if a parenthesis follows its name: the catalog does not know.
    """
    with connection.transaction():
        _clear_search_path(connection)
        functions = connection.execute(_FUNCTIONS.encode()).fetchall()
        needs: dict[str, list[str]] = defaultdict(list)
        for name, needed in connection.execute(_NEEDS.encode()):
            needs[name].append(needed)
        others = [row for query in _OTHERS for row in connection.execute(query.encode(), ()).fetchall()]
    named: dict[str, list[str]] = defaultdict(list)
    for name, _, _, _, plain, _, _ in functions:
        named[plain].append(name)
    found = []
    for name, ddl, extension, schema, _, text, types in functions:
        in_text = [one for call in _CALL.finditer(text) for one in named.get(_plain(*call.groups()), ())]
        called = dict.fromkeys((*needs[name], *in_text))
        called.pop(name, None)
        found.append(UserFunction(name, ddl, extension, schema, tuple(called), tuple(types)))
    return found + [UserFunction(name, ddl, False, schema, tuple(needs[name])) for name, ddl, schema in others]


def _plain(quoted: str | None, name: str | None) -> str:
    return (name or "").lower() if quoted is None else quoted.replace('""', '"')
