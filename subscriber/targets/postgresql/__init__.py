"""PostgreSQL as a target: schemas, native types, COPY, prepared transactions, replication origins.

What is here: ``target`` opens the database and combines the roles. One file for each role:
``errors``, ``transactions``, ``shapes``, ``column_values`` (the role values), ``matching``,
``writing``, ``loading``, ``bulk``, ``pipeline``, ``ddl``, ``sequences``, ``row_versions``,
``prepared``, ``origins``, ``run_lock``, ``cluster``. ``catalog`` queries the system catalogs for
shapes, sequences and row versions; ``binary_columns`` checks values in binary format; ``row_texts``
writes rows as COPY and row types read them; ``server_text`` reads results.

Values pass from ``column_values`` through ``matching`` to the statement (the stream), from
``column_values`` through ``row_texts`` to ``bulk`` (many changes of the stream), or from
``loading`` to COPY (the initial copy).

What is not here: the Protocols of the roles are in :mod:`subscriber.targets.roles`, and the general
implementation that this folder overrides is in :mod:`subscriber.targets.generic`. The publisher,
which is also PostgreSQL, is in :mod:`subscriber.publisher`.
"""
