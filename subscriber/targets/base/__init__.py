"""The target roles: one base class for each part of what a target does.

A base class is the contract of its role, and does what SQLAlchemy knows about any database. A
dialect's folder (such as :mod:`subscriber.targets.sqlite`) has files of the same names, whose
classes override what differs.

    errors        errors        translates the driver's errors
    transactions  transactions  write transactions, interrupts, and how durable a commit is
    catalog       shapes        the columns, keys and unique indexes of the target's tables
                  sequences     sequences and counters
                  row_versions  the last writer of a row
                  reader        all rows of a table, column by column
    values        values        which columns can store a PostgreSQL type, and the values to bind
    writing       matching      the conditions that find a row
                  writing       INSERT, UPDATE and TRUNCATE statements
    loading       loading       the rows of a table's initial copy
    ddl           ddl           CREATE TABLE and ALTER TABLE
    objects       objects       indexes, constraints, defaults and comments

The second column is the attribute of :class:`~subscriber.targets.target.Target`. These roles are
optional; the attribute of a missing one is None:

    loading       bulk                many changes of different rows, with one statement
    writing       deleted_rows        triggers that record deleted rows
    transactions  statement_pipeline  many different statements, with one round trip
                  prepared            prepared transactions
                  origins             replication origins
                  run_lock            the run lock
                  cluster             the PostgreSQL cluster of the target
"""
