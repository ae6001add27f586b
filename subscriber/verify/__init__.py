"""Are publisher and target equal? Row by row, in PostgreSQL's own text.

::

    compare_tables    connections, and one comparison a table
      ├─ read_rows        the rows of either side, streamed in the order of the key
      ├─ canonical_text   PostgreSQL's text of the values that a driver gives
      └─ row_differences  equal rows cancel; counts and keys of the others
"""
