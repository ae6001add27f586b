"""DuckDB as a target: one file, which one process at a time has open.

What is here: ``target`` opens the file and combines the roles. One file for each role: ``errors``,
``transactions``, ``shapes``, ``column_values`` (the role values), ``matching``, ``writing``,
``loading``, ``reading``, ``bulk``, ``ddl``, ``sequences``. ``values`` has the rules for values,
``connection`` opens the file safely, and ``leaving`` is for the end of a program.

Values pass through ``values``. ``loading`` and ``bulk`` then pass them to the database as Arrow
tables, which a statement reads.

What is not here: the Protocols of the roles are in :mod:`subscriber.targets.roles`, and the general
implementation that this folder overrides is in :mod:`subscriber.targets.generic`. The run lock of a
file is in :mod:`subscriber.targets.run_lock`. Translation of expressions is in
:mod:`subscriber.targets.translate_expression`.
"""
