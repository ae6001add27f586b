"""From a syntax tree to a typed tree, in the same steps as PostgreSQL's parse analysis.

::

    syntax ──analyzer──▶ tree.Expression ──deparse──▶ text, as pg_get_expr writes it
              ├ column_references      the column that a name refers to
              ├ operators, function_calls
              ├ candidates             the choice between operators or functions of the same name
              ├ coerce, polymorphic    conversions, and the types any…
              ├ typeinfo               schemas and types: names, categories, modifiers; constants
              └ collate                the collation of every value
"""
