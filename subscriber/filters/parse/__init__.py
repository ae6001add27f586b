"""Parses the text of an expression into a syntax tree. Names are not looked up.

::

    text ──subscriber.sql.cursor──▶ tokens ──parser──▶ syntax
                                              ├ special_forms   CASE, CAST, EXTRACT, TRIM …
                                              └ type_names      names of types

``parser`` is the entry point. It reads tokens through :class:`subscriber.sql.cursor.Cursor` and
follows the operator precedences of ``gram.y``. ``special_forms`` reads the expressions that have
their own grammar rules. ``type_names`` reads type names. ``syntax`` defines the nodes of the
result.

:mod:`subscriber.filters.analyze` looks up the names.
"""
