"""Compiles a typed tree into operations and evaluates it over the rows of a frame.

::

    tree ──simplify──▶ constants computed ──operations──▶ Operation: rows → Value
              └ replacement                     ├ calls         NULL, constants, errors
                                                ├ any_all       AND, OR, ANY, ALL
                                                ├ array_values  ARRAY[…]
                                                └ row_values    rows of a frame and their values

:mod:`subscriber.filters.evaluate.row_filter` is the entry point for other packages. ``simplify``
computes constants once, and ``replacement`` replaces calls as the server's planner does.
``operations`` makes an operation for each node.

The functions are in :mod:`subscriber.filters.functions`. :mod:`subscriber.filters.supported`
decides which expressions may be evaluated.
"""
