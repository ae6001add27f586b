"""The databases of a session, in which its statements run.

::

    node                    the interface of a node; PostgreSQLNode (publisher, native subscriber)
    target_node             TargetNode: a subscriber node whose engine is subscriber
      engine                ``subscriber run`` for the target of the node, in a thread
      refusals              the statements that a session on a target node cannot run
      session_catalogs      the catalogs of subscriptions, as a statement can query them
      transaction_block     subscription commands inside a transaction block
      session_database      the interface of the database in which the node's statements run:
        mirror              a PostgreSQL database beside any target, kept equal to it
          mirrored_rows     rows as text between the mirror and the target
          partitions        the rows of partitioned tables in the mirror and in the target
        own_database        the target itself, if it is PostgreSQL and disposable
    emulated_publications   keeps emulated publications equal to the publications of the publishers
      carriers              the publication of the server that emulated publications choose from

A statement goes to its node. A target node runs subscription commands itself. It refuses some
statements, and runs all others in its session database.

The parsing and printing of statements is in :mod:`subscriber.scenario.session`, and the servers are
in :mod:`subscriber.scenario.servers`.
"""
