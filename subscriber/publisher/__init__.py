"""Queries and commands to the publisher, through psycopg: SQL, replication commands and COPY.

::

    conninfo, connection, server_errors
        ──▶ client, server_facts           checks whether it is ready: system, settings, slots, publications
        ──▶ catalog                        columns and indexes of tables, for:
              shapes, table_objects        everything that is needed to create an equal table
              omitted_objects              what the target does not get
              catalog_tables               all tables, for emulated publications
              table_checks                 identities, privileges, inheritance, sizes
        ──▶ server_publications, sequences what the server publishes
        ──▶ slots, snapshot, history       replication commands
        ──▶ copy_plan, copy_out            a table's rows as of a snapshot (copy_out runs in Spark's tasks and in the driver)
        ──▶ failover                       whether a standby could take the slot over
        ──▶ fence                          a cutover: writes stop, and the way back
"""
