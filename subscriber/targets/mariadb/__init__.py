"""MariaDB and MySQL as targets, through PyMySQL.

What is here: ``target`` opens the database and combines the roles. One file for each role:
``errors``, ``transactions``, ``shapes``, ``column_values`` (the role values), ``matching``,
``writing``, ``loading``, ``bulk``, ``ddl``, ``sequences``, ``prepared``, ``run_lock``. ``values``
has the rules for values, ``catalog`` reads ``information_schema``, ``connection`` is the driver's
connection, ``counters`` resets AUTO_INCREMENT after TRUNCATE, and ``blockers`` finds the sessions
that hold a lock.

A value passes through ``values`` and is then written by an INSERT, UPDATE or DELETE (the stream,
many rows of it by ``bulk``) or by LOAD DATA (``loading``, the initial copy). ``statement_texts``
writes the statements of ``bulk``.

What is not here: the Protocols of the roles are in :mod:`subscriber.targets.roles`, and the general
implementation that this folder overrides is in :mod:`subscriber.targets.generic`. MariaDB does not
record the last writer of a row, so a MariaDB target has no role origins, and its role row_versions
is the general one.
"""
