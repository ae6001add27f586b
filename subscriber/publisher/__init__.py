"""What is asked of the publisher, through psycopg: SQL, replication commands and COPY.

::

    connection, sql_connection
               ──▶ publisher            is it ready? system, wal_level, slots, publications
               ──▶ published_tables     which tables the server's publications publish, with which columns and filters
               ──▶ shapes, schema_objects, sequences, read_attributes, replica_identity, privileges     what those tables are like
               ──▶ catalog_tables, publication_definitions      all tables and publications, for filters that the subscriber evaluates
               ──▶ slots, snapshot, history, blockers           replication commands, and what they wait for
               ──▶ copy_plan, copy_out                          a table's rows as they are in a snapshot (runs where Spark's tasks do)

The stream itself is :mod:`subscriber.receive`'s. Nothing here knows of a target, a journal or a
subscription's catalog.
"""
