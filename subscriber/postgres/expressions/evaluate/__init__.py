"""Compiles a typed tree into operations and evaluates it over the rows of a frame.

::

    tree ──simplify──▶ constants computed ──operations──▶ Operation: rows → Value
                                                ├ calls         NULL, constants, errors; AND, OR, ANY, ALL
                                                └ row_values    rows of a frame and their values, ARRAY[…]

Other packages begin with ``row_filter``. ``simplify`` also replaces calls as the server's planner
does.
"""
