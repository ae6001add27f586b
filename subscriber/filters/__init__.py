"""Evaluates a boolean expression of PostgreSQL, from the text of a WHERE clause to one boolean per
row.

::

    text ──parse──▶ syntax ──analyze──▶ tree.Expression ──supported──▶ what can be computed exactly ──evaluate──▶ true, false, null
         (scan.l,          (parse_expr.c,       │                                                         │
          gram.y)           parse_func.c)       └──deparse──▶ text, as pg_get_expr writes it              ├ functions
                                 │                                                                        └ regex
                                 └ builtins: pg_type, pg_operator, pg_proc, pg_cast as recorded

:mod:`.parse` reads the text, :mod:`.analyze` gives every node its type and :mod:`.builtins` holds
the catalogs that the analysis reads. :mod:`.supported` decides whether the subscriber can evaluate
the expression exactly as the server does. :mod:`.evaluate` evaluates the expression, with the
functions of :mod:`.functions` and the regular expressions of :mod:`.regex`.
:mod:`.row_filters_page` writes the page ``docs/row-filters.md``.

Callers begin with :mod:`.check`. It parses and analyzes the text, and refuses an expression that a
row filter may not contain. :mod:`.evaluate.row_filter` compiles the checked expression.

This package does not know publications. :mod:`subscriber.publication` decides which row filter
applies to which rows.
"""
