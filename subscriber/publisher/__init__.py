"""Queries and commands to the publisher, through psycopg: SQL, replication commands and COPY.

::

    conninfo, connection, sql_connection, server_errors
               ──▶ publisher            checks whether it is ready: system, settings, slots, publications
               ──▶ logical_decoding     the settings that logical decoding depends on, by version
               ──▶ published_tables     the tables that the server's publications publish, with columns and filters
               ──▶ shapes, schema_objects, sequences, read_attributes, replica_identity, privileges     the properties of those tables
               ──▶ catalog_tables, publication_definitions      all tables and publications, for emulated publications
               ──▶ slots, snapshot, history, blockers           replication commands, and the sessions that they wait for
               ──▶ fence, change_watch, slot_changes                    a cutover: writes stop, and what came since
               ──▶ reverse_obstacles, reverse_replication               a cutover: the way back
               ──▶ copy_plan, copy_out                          a table's rows as of a snapshot (copy_out runs in Spark's tasks and in the driver)

``announced`` gives the relation messages that the stream would send for published tables.

The receiving of the stream is in :mod:`subscriber.receive`. This package uses no target, no journal
and no subscription catalog.
"""
