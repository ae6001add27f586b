"""Targets: the databases that changes are written to.

:func:`open_target` turns a URL into a :class:`~subscriber.targets.target.Target`. A target is a
SQLAlchemy engine together with its target roles (:mod:`subscriber.targets.roles`). Other packages
use the roles and ``target.capabilities``; they never compare the database's name.

What is here, in the order in which it is used:

    dialects.py                     from a URL to the dialect's folder, and to a Target
    target.py, roles/               the Target, and the Protocol of each role
    table_roles.py                  the roles that a Target imports when they are first used
    generic/                        each role for any database, with what SQLAlchemy knows
    postgresql/, mariadb/,
    sqlite/, duckdb/                one folder for each dialect, with one file for each role
    capabilities.py                 facts about a kind of database
    target_table.py                 tables, columns, unique indexes and sequences, as data
    add_column.py                   ALTER TABLE … ADD COLUMN
    ddl.py, translate_expression.py CREATE TABLE and ALTER TABLE from a publisher's table
    table_changes.py                what is added to a table that exists: indexes, constraints, …
    declared_columns.py             the precision and the length of a column, and their checks
    conversion.py                   values for a column of another type than the publisher's
    loader.py                       blocks of a table's initial copy
    query_result.py                 the result of a query as text
    interruption.py                 ends a statement that another thread runs
    run_lock.py, file_locks.py,
    place.py                        locks, lock holders and paths of targets that are files
    types_page.py                   writes docs/types.md

A value passes through these parts in this order: ``values.check_column`` when the relation is
opened, ``values.bind_values`` for each batch, then ``matching`` and ``writing`` (the stream) or
``loading`` (the initial copy), inside a transaction of ``transactions``.

What is not here: the decoding of PostgreSQL's values is in :mod:`subscriber.types`, the publisher's
tables are in :mod:`subscriber.schema`, and the errors are in :mod:`subscriber.errors`.
"""

from sqlalchemy import Connection

from subscriber.targets.capabilities import Capabilities
from subscriber.targets.dialects import open_target
from subscriber.targets.duckdb.leaving import leave_quietly
from subscriber.targets.interruption import Interruption
from subscriber.targets.roles.transactions import DurabilityWarning
from subscriber.targets.target import Target
from subscriber.targets.target_table import LeafRouting, RowVersion, TargetColumn, TargetTable, UniqueIndex

__all__ = [
    "Capabilities",
    "Connection",
    "DurabilityWarning",
    "Interruption",
    "LeafRouting",
    "RowVersion",
    "Target",
    "TargetColumn",
    "TargetTable",
    "UniqueIndex",
    "leave_quietly",
    "open_target",
]
