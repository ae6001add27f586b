"""Reads the publisher's user-defined functions, and which objects of tables call them.

A target that has PostgreSQL's expressions can build such an object only when the function is there.
The queries run with an empty ``search_path``, so that a function is written with its schema, and
work from version 10 on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from subscriber.publisher.sql_connection import Connection
from subscriber.schema.table_objects import UserFunction

_CALLED: Final = "d.refclassid = 'pg_proc'::regclass AND d.refobjid >= 16384"
CALLS_OF_TYPE: Final = f"""
ARRAY(SELECT DISTINCT d.refobjid::regprocedure::text FROM pg_depend d WHERE {_CALLED}
  AND (d.classid = 'pg_type'::regclass AND d.objid = t.oid AND t.typtype = 'd'
   OR d.classid = 'pg_constraint'::regclass AND d.objid IN (SELECT k.oid FROM pg_constraint k WHERE k.contypid = t.oid))
  ORDER BY 1)"""
"""The functions that a domain ``t`` calls, as an expression of a query."""

_CALLS: Final = f"""
SELECT x.relation::int8, x.kind, x.name, d.refobjid::regprocedure::text
 FROM (SELECT f.adrelid AS relation, 'default' AS kind, a.attname::text AS name, 'pg_attrdef'::regclass AS class, f.oid
        FROM pg_attrdef f JOIN pg_attribute a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
  UNION ALL SELECT k.conrelid, 'check', k.conname::text, 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE k.contype = 'c'
  UNION ALL SELECT i.indrelid, 'index', c.relname::text, 'pg_class'::regclass, c.oid
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  UNION ALL SELECT c.oid, 'partitions', '', 'pg_class'::regclass, c.oid FROM pg_class c WHERE c.relkind = 'p') x
 JOIN pg_depend d ON d.classid = x.class AND d.objid = x.oid AND {_CALLED}
 WHERE x.relation = ANY (%s) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""

_FUNCTIONS: Final = """
SELECT p.oid::regprocedure::text,
 CASE WHEN x.extname IS NOT NULL THEN 'CREATE EXTENSION IF NOT EXISTS ' || quote_ident(x.extname)
  WHEN EXISTS (SELECT FROM pg_aggregate g WHERE g.aggfnoid = p.oid) THEN '' ELSE pg_get_functiondef(p.oid) END,
 x.extname IS NOT NULL
 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 LEFT JOIN pg_depend e ON e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e'
 LEFT JOIN pg_extension x ON x.oid = e.refobjid
 WHERE n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
  AND (x.oid IS NULL OR p.oid::regprocedure::text = ANY (%s)) ORDER BY p.oid"""


def read_calls(connection: Connection, oids: Collection[int]) -> dict[int, Mapping[tuple[str, str], tuple[str, ...]]]:
    """The user-defined functions that the objects of these tables call, as in
    :attr:`TableObjects.calls`. The ``search_path`` is empty.

    Raises:
        psycopg.Error: the query failed.
    """
    found: dict[int, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for oid, kind, name, function in connection.execute(_CALLS.encode(), (list(oids),)):
        found[oid][kind, name].append(function)
    return {oid: {of: tuple(names) for of, names in calls.items()} for oid, calls in found.items()}


def read_functions(connection: Connection, called: Collection[str] = ()) -> list[UserFunction]:
    """The functions and procedures of the database in the order in which they were created.

    Args:
        connection: a connection to the publisher.
        called: the functions of extensions that are read, too.

    Raises:
        psycopg.Error: the query failed.
    """
    with connection.transaction():
        connection.execute("SELECT set_config('search_path', '', true)")
        rows = connection.execute(_FUNCTIONS.encode(), (list(called),)).fetchall()
    return [UserFunction(*row) for row in rows]
