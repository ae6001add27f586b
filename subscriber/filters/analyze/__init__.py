"""Syntax → typed tree, the way PostgreSQL's parse analysis goes (parse_expr.c, parse_oper.c,
parse_func.c, parse_coerce.c).

::

    syntax ──analyzer──▶ tree.Expression ──validate──▶ what a publication's filter may hold
              ├ column_references      what a name refers to
              ├ operators, function_calls, row_comparisons, constants
              ├ candidates             which operator and function is meant
              ├ coerce, polymorphic    which conversions are made, types any…
              ├ collate                which collation every value has
              └ generated_columns      virtual generated columns, written out

``deparse`` writes a tree as pg_get_expr does.
"""
