"""The SQL that lists catalog objects as the lines that :class:`.builtin_catalog.Catalog` reads.

The same query serves two purposes. ``tools/record_builtins.py`` records the built-in objects with
it; these have OIDs below 10000 (casts, operator classes and members of operator families: below
16384). The program lists with it the objects that are specific to a publisher: the objects of
users, with OIDs from 16384, and the collations that initdb found on the machine. The query runs on
PostgreSQL 10 and newer.
"""

from __future__ import annotations

from typing import Final

OBJECTS: Final = r"""
WITH visible AS (SELECT n.oid, n.nspname FROM pg_namespace n WHERE n.nspname !~ '^pg_toast|^pg_temp')
SELECT 'type' || E'\t' || concat_ws(E'\t', t.oid, v.nspname, t.typname, t.typtype, t.typcategory, t.typispreferred::int,
         CASE WHEN t.typinput::oid IN (40, 54, 750) THEN t.typelem ELSE 0 END,
         t.typarray, t.typcollation, t.typbasetype, t.typtypmod, coalesce(r.rngsubtype, 0), coalesce({multirange}, 0))
  FROM pg_type t JOIN visible v ON v.oid = t.typnamespace LEFT JOIN pg_range r ON r.rngtypid = t.oid
  WHERE {types} AND t.typisdefined
UNION ALL
SELECT 'operator' || E'\t' || concat_ws(E'\t', o.oid, v.nspname, o.oprname, o.oprleft, o.oprright, o.oprresult, o.oprcode::oid, o.oprnegate)
  FROM pg_operator o JOIN visible v ON v.oid = o.oprnamespace
  WHERE {operators} AND o.oprcode <> 0
UNION ALL
SELECT 'function' || E'\t' || concat_ws(E'\t', p.oid, v.nspname, p.proname, p.proargtypes::text, p.prorettype, {kind},
         p.provolatile, p.proretset::int, p.provariadic, p.pronargdefaults,
         CASE WHEN p.pronargdefaults = 0 THEN '' ELSE coalesce(array_to_string(p.proargnames, ',', ''), '') END,
         CASE WHEN p.pronargdefaults = 0 THEN '' ELSE pg_get_expr(p.proargdefaults, 0) END)
  FROM pg_proc p JOIN visible v ON v.oid = p.pronamespace
  WHERE {functions}
UNION ALL
SELECT 'cast' || E'\t' || concat_ws(E'\t', c.castsource, c.casttarget, c.castfunc, c.castcontext, c.castmethod)
  FROM pg_cast c
  WHERE {casts}
UNION ALL
SELECT 'opclass' || E'\t' || concat_ws(E'\t', c.oid, c.opcintype, c.opcfamily)
  FROM pg_opclass c
  WHERE {opclasses} AND c.opcdefault AND c.opcmethod = 403
UNION ALL
SELECT 'amop' || E'\t' || concat_ws(E'\t', a.oid, a.amopfamily, a.amopstrategy, a.amoplefttype, a.amoprighttype, a.amopopr)
  FROM pg_amop a
  WHERE {amops} AND a.amopmethod = 403 AND a.amoppurpose = 's'
UNION ALL
SELECT 'collation' || E'\t' || concat_ws(E'\t', c.oid, v.nspname, c.collname)
  FROM pg_collation c JOIN visible v ON v.oid = c.collnamespace
  WHERE {collations} AND c.collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))
"""

FIRST_NORMAL_OID: Final = 16384
"""The first OID of objects that users create (``FirstNormalObjectId``, rule B25)."""
_NOT_A_ROW: Final = """NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind <> 'c')
    AND NOT EXISTS (SELECT FROM pg_type e JOIN pg_class c ON c.oid = e.typrelid WHERE e.oid = t.typelem AND c.relkind <> 'c')"""


def built_in_objects(server_version: int) -> str:
    """Return the SQL that lists the objects that every server of this version has.

    Their OIDs are the same on every server, because the sources of PostgreSQL assign them.
    """
    return _objects(server_version, own=False)


def own_objects(server_version: int) -> str:
    """Return the SQL that lists the objects that are specific to this server.

    These are the objects of users, and the objects to which initdb assigned OIDs.
    """
    return _objects(server_version, own=True)


def _objects(server_version: int, *, own: bool) -> str:
    # initdb assigns OIDs from 10000. Casts and members of operator families have only such OIDs.
    numbered, unnumbered = (">= 10000", f">= {FIRST_NORMAL_OID}") if own else ("< 10000", f"< {FIRST_NORMAL_OID}")
    return OBJECTS.format(
        types=f"t.oid {numbered} AND {_NOT_A_ROW}",
        operators=f"o.oid {numbered}",
        functions=f"p.oid {numbered}",
        casts=f"c.oid {unnumbered}",
        opclasses=f"c.oid {unnumbered}",
        amops=f"a.oid {unnumbered}",
        collations=f"c.oid {numbered}",
        multirange="r.rngmultitypid" if server_version >= 140000 else "0",
        kind="p.prokind"
        if server_version >= 110000
        else "CASE WHEN p.proisagg THEN 'a' WHEN p.proiswindow THEN 'w' ELSE 'f' END",
    )
