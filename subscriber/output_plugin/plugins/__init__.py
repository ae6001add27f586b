"""The output plugins that PostgreSQL ships, in Python.

* ``pgoutput``: the protocol of logical replication. ``pgoutput_options`` reads its options,
  ``pgoutput_relations`` finds how a relation is published, ``pgoutput_rows`` applies row filters
  and makes tuples.
* ``test_decoding``: every change as a line of text.

A plugin uses the package around it as a plugin of the user's own does: it receives a context,
transactions, relations and changes, and nothing else.
"""
