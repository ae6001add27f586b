"""Turns a syntax tree into a typed tree, in the same steps as PostgreSQL's parse analysis.

The model is ``parse_expr.c``, ``parse_oper.c``, ``parse_func.c`` and ``parse_coerce.c``.

::

    syntax ──analyzer──▶ tree.Expression ──validate──▶ what a publication's filter may contain
              ├ column_references      the column that a name refers to
              ├ operators, function_calls, row_comparisons, constants
              ├ schemas                the schema of a qualified name
              ├ candidates             the choice between operators or functions of the same name
              ├ coerce, polymorphic    conversions, and the types any…
              ├ typeinfo               names, categories and modifiers of types
              ├ collate                the collation of every value
              └ generated_columns      expansion of virtual generated columns

``tree`` defines the nodes of the result. ``deparse`` writes a tree as text, as ``pg_get_expr``
does.

:mod:`subscriber.filters.parse` makes the syntax tree. :mod:`subscriber.filters.builtins` holds the
catalogs that the analysis reads. :mod:`subscriber.filters.supported` decides whether the subscriber
can evaluate the result.
"""
