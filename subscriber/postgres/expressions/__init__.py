"""A boolean expression of PostgreSQL, from the text of a WHERE clause to one boolean per row.

::

    text ──parse──▶ syntax ──analyze──▶ tree.Expression ──supported──▶ what can be computed exactly ──evaluate──▶ true, false, null
         (scan.l,          (parse_expr.c,       │                                                         │
          gram.y)           parse_func.c)       └──deparse──▶ text, as pg_get_expr writes it              ├ functions
                                 │                                                                        └ regex
                                 └ builtin_catalog: pg_type, pg_operator, pg_proc, pg_cast as recorded

Callers begin with ``check_filter``: it parses, analyzes, and refuses what a row filter may not
contain or what cannot be computed exactly. ``evaluate.row_filter`` compiles the result.
"""
