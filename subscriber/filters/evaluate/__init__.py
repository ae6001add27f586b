"""How a compiled filter is made; :mod:`subscriber.filters.evaluate.row_filter` is what the others
call.

::

    tree ──simplify──▶ constants computed ──operations──▶ Operation: rows → Value
                                             │
                                             calls        a registered function over values: NULL, constants, errors
                                             any_all      AND, OR, ANY, ALL: only the rows that are undecided
                                             array_values ARRAY[…]
                                             rows         some rows of a frame, and what is computed of them
"""
