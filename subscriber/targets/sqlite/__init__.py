"""SQLite as a target: one file with one writer.

What is here: ``target`` opens the file and combines the roles. One file for each role: ``errors``,
``transactions``, ``shapes``, ``column_values`` (the role values), ``matching``, ``writing``,
``loading``, ``bulk``, ``ddl``, ``sequences``. ``values`` has the rules for values, ``catalog``
reads the pragmas, and ``keywords`` has the names that must be quoted.

A value passes through ``values`` and is then written by an INSERT, UPDATE or DELETE (the stream,
many rows of it by ``bulk``) or by ``loading`` (the initial copy).

What is not here: the Protocols of the roles are in :mod:`subscriber.targets.roles`, and the general
implementation that this folder overrides is in :mod:`subscriber.targets.generic`. The run lock of a
file is in :mod:`subscriber.targets.run_lock`. Translation of expressions is in
:mod:`subscriber.targets.translate_expression`.
"""
