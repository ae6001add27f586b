"""Comparison of publisher and target, row by row, in PostgreSQL's text format.

::

    compare_tables    connections, and one comparison a table
      ├─ read_rows        the rows of either side, streamed in the order of the key
      ├─ canonical_text   PostgreSQL's text of the values that a driver returns
      └─ row_differences  equal rows cancel; counts and keys of the others

``compare_tables`` opens the connections. It passes the rows of ``read_rows`` through
``canonical_text`` and then to ``row_differences``. Writing rows to the target is not
here: that is :mod:`subscriber.apply`.
"""
