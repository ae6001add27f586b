"""A boolean expression of PostgreSQL: from the text of a WHERE to one boolean a row. Nothing here
knows of publications.

::

    text ──parse──▶ syntax ──analyze──▶ tree.Expression ──supported──▶ what can be computed exactly ──evaluate──▶ true, false, null
         (scan.l,          (parse_expr.c,       │                                                         │
          gram.y)           parse_func.c)       └──deparse──▶ text, as pg_get_expr writes it              ├ functions
                                 │                                                                        └ regex
                                 └ builtins: pg_type, pg_operator, pg_proc, pg_cast as recorded

:mod:`.check` is the entrance: it parses, analyzes and refuses what a row filter may not hold.
:mod:`.evaluate.row_filter` compiles what it gives. Which rows of which publication are filtered by
what is :mod:`subscriber.publication`'s.
"""
