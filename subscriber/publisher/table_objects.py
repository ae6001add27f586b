"""Reads what belongs to published tables beside their shapes: indexes, user-defined types,
comments, partitions, and sequences that no column owns.

The queries work from version 10 on. They run in one transaction with an empty ``search_path``, so
that every expression names user-defined objects with their schema.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, cast

from subscriber.publisher.functions import CALLS_OF_TYPE, read_calls
from subscriber.publisher.shapes import read_shapes
from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.table_objects import (
    IndexKey,
    IndexShape,
    LoneSequence,
    Partition,
    TableObjects,
    UserType,
    after_using,
)

_FIRST_NORMAL_OID: Final = 16384


def read_table_objects(connection: Connection, tables: Sequence[PublishedTable]) -> list[TableObjects]:
    """The objects of these tables, in the order of the tables; a table that was dropped is left
    out.

    Raises:
        psycopg.Error: a query failed.
    """
    shapes = {(shape.schema, shape.name): (oid, shape) for oid, shape in read_shapes(connection).items()}
    found = [shapes[table.key] for table in tables if table.key in shapes]
    oids = [oid for oid, _ in found]
    with connection.transaction():
        connection.execute("SELECT set_config('search_path', '', true)")
        indexes, comments = _indexes(connection, oids), _comments(connection, oids)
        types, keys = _types_of_columns(connection, oids), _partition_keys(connection, oids)
        partitions = {oid: tuple(_partitions(connection, oid)) for oid in keys}
        calls = read_calls(connection, oids)
    return [
        TableObjects(
            shape=shape,
            indexes=tuple(indexes[oid]),
            types=types[oid],
            comment=comments[oid].get(""),
            column_comments={name: text for name, text in comments[oid].items() if name},
            partition_key=keys.get(oid, ""),
            partitions=partitions.get(oid, ()),
            calls=calls.get(oid, {}),
        )
        for oid, shape in found
    ]


def read_lone_sequences(connection: Connection) -> list[LoneSequence]:
    """The sequences of the database that no column owns, without those of extensions.

    Raises:
        psycopg.Error: a query failed.
    """
    rows = connection.execute(
        "SELECT n.nspname::text, c.relname::text, format('AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s %s',"
        " format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache,"
        " CASE WHEN s.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END)"
        " FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relpersistence <> 't' AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass"
        " AND d.objid = c.oid AND d.deptype IN ('a', 'i', 'e')) ORDER BY 1, 2"
    ).fetchall()
    return [LoneSequence(*row) for row in rows]


# Indexes ------------------------------------------------------------------------------------------

_KINDS: Final = {"p": "primary key", "u": "unique", "x": "exclusion"}


def _indexes(connection: Connection, oids: Collection[int]) -> dict[int, list[IndexShape]]:
    features = features_of(connection)
    width = "i.indnkeyatts" if features.covering_indexes else "i.indnatts"
    distinct = "NOT i.indnullsnotdistinct" if features.nulls_not_distinct else "true"
    rows = connection.execute(
        f"""
SELECT i.indrelid::int8, x.relname::text, i.indisunique, pg_get_expr(i.indpred, i.indrelid), m.amname::text, {distinct},
 NOT i.indimmediate, k.contype::text, pg_get_constraintdef(k.oid), pg_get_indexdef(i.indexrelid),
 (SELECT json_agg(json_build_array(a.attname, CASE WHEN u.attnum = 0 THEN pg_get_indexdef(i.indexrelid, u.place::int4, false) END,
   i.indoption[u.place - 1] & 1 = 1, o.opcdefault AND (u.attnum = 0 OR i.indcollation[u.place - 1] IN (0, a.attcollation)))
   ORDER BY u.place)
  FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u (attnum, place)
  JOIN pg_opclass o ON o.oid = i.indclass[u.place - 1]
  LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum WHERE u.place <= {width}),
 ARRAY(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u (attnum, place)
  JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = u.attnum WHERE u.place > {width} ORDER BY u.place)
 FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
 LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.conrelid = i.indrelid AND k.contype IN ('p', 'u', 'x')
 WHERE i.indrelid = ANY (%(oids)s) AND i.indisvalid ORDER BY i.indrelid, x.relname""".encode(),
        {"oids": list(oids)},
    ).fetchall()
    found: dict[int, list[IndexShape]] = defaultdict(list)
    for oid, name, unique, predicate, method, nulls, deferrable, constraint, constraint_ddl, ddl, keys, include in rows:
        kind = cast('Literal["", "primary key", "unique", "exclusion"]', _KINDS.get(constraint, ""))
        found[oid].append(
            IndexShape(
                name=name,
                keys=tuple(IndexKey(column, text or "", down, ordinary) for column, text, down, ordinary in keys),
                include=tuple(include),
                unique=unique,
                predicate=predicate,
                method=method,
                nulls_distinct=nulls,
                deferrable=deferrable,
                constraint=kind,
                ddl=constraint_ddl if kind else after_using(ddl),
            )
        )
    return found


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
        if type_oid >= _FIRST_NORMAL_OID:
            found[oid][column] = _read_type(connection, type_oid, types), is_array
    return found


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
 {CALLS_OF_TYPE}
 FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = %s"""


def _read_type(connection: Connection, oid: int, known: dict[int, UserType]) -> UserType:
    """A type, after those that it is made of, which are added to ``known`` too."""
    if oid not in known:
        row = connection.execute(_TYPE, (oid,)).fetchone()
        assert row is not None
        known[oid] = _type(connection, oid, row, known)
    return known[oid]


def _type(connection: Connection, oid: int, row: tuple[Any, ...], known: dict[int, UserType]) -> UserType:
    (
        schema,
        name,
        written,
        letter,
        base,
        base_name,
        not_null,
        default,
        labels,
        label_list,
        checks,
        unmet,
        columns,
        span,
        extension,
        calls,
    ) = row
    made = UserType(oid=oid, schema=schema, name=name, kind="other")
    if extension is not None:
        return replace(made, kind="extension", ddl=f"CREATE EXTENSION IF NOT EXISTS {extension}")
    match letter:
        case "e":
            return replace(
                made, kind="enum", ddl=f"CREATE TYPE {written} AS ENUM ({label_list or ''})", labels=tuple(labels)
            )
        case "d":
            below = _read_type(connection, base, known) if base >= _FIRST_NORMAL_OID else None
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
            needs = tuple(_read_type(connection, other, known) for other, _ in columns if other >= _FIRST_NORMAL_OID)
            return replace(
                made,
                kind="composite",
                ddl=f"CREATE TYPE {written} AS ({', '.join(text for _, text in columns)})",
                needs=needs,
            )
        case "r" if span is not None and span[0] < _FIRST_NORMAL_OID:
            return replace(made, kind="range", ddl=f"CREATE TYPE {written} AS RANGE ({span[1]})")
    return made
