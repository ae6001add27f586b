"""The output plugins that PostgreSQL ships. They use the package around them as a user's plugin
does.

* ``pgoutput``: the protocol of logical replication. ``pgoutput_relations`` finds how a relation
  is published, applies row filters and makes tuples.
* ``test_decoding``: every change as a line of text.
"""
