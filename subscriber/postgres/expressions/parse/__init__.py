"""From the text of an expression to a syntax tree. Names are not looked up.

::

    text ──subscriber.postgres.sql.cursor──▶ tokens ──parser──▶ syntax
                                              ├ special_forms   CASE, CAST, EXTRACT, TRIM …
                                              └ type_names      names of types
"""
