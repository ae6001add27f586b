"""Targets: the databases that changes are written to.

:func:`open_target` turns a URL into a :class:`~subscriber.targets.target.Target`: a SQLAlchemy
engine together with its target roles. Other packages use the roles and ``target.capabilities``;
they never compare the database's name.

    dialects.py                     from a URL to the dialect's folder, and to a Target
    target.py                       the Target, and how another thread stops its work
    base/                           a class for each role, which does what SQLAlchemy knows
    postgresql/, mariadb/,
    sqlite/, duckdb/                one folder for each dialect, which overrides these classes
    generic/                        any other dialect: what probes find out about the database
    capabilities.py                 facts about a kind of database
    target_table.py                 tables, columns, unique indexes and sequences, as data
    statements.py                   ALTER TABLE … ADD COLUMN; insert a row, or change it
    ddl.py, translate_expression.py CREATE TABLE and ALTER TABLE from a publisher's table
    table_changes.py                what is added to a table that exists: indexes, constraints, …
    declared_columns.py             the precision and the length of a column, and their checks
    conversion.py                   values for a column of another type than the publisher's
    query_result.py                 the result of a query as text
    database_files.py               locks, lock holders and paths of targets that are files
"""

from sqlalchemy import Connection

from subscriber.targets.base.transactions import DurabilityWarning
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.dialects import open_target
from subscriber.targets.target import Interruption, Target, exit_quietly
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
    "exit_quietly",
    "open_target",
]
