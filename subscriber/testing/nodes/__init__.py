"""The databases of a session, in which its statements run.

::

    node                    the interface of a node; PostgreSQLNode (publisher, native subscriber)
    target_node             TargetNode: a subscriber node whose engine is subscriber
      engine                ``subscriber run`` for the target of the node, in a thread
      session_catalogs      catalogs of subscriptions for a statement; statements that are refused
      session_database      the database in which the node's statements run; commands in a block
        OwnDatabase         the target itself, if it is PostgreSQL and disposable
        mirror              a PostgreSQL database beside any target, kept equal to it
          mirrored_rows     rows as text between the mirror and the target
    older_publisher         a publisher whose publications are those of a newer PostgreSQL
    emulated_publications   keeps emulated publications equal to the publications of the publishers,
                            and the carrier that they choose from
"""
