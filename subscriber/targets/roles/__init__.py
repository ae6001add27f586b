"""The target roles: each part of what a target does is a Protocol.

Every target has these roles:

    errors        translates the driver's errors
    transactions  write transactions, interrupts, and how durable a commit is
    shapes        the columns, keys and unique indexes of the target's tables
    values        which columns can store a PostgreSQL type, and the values to bind
    matching      the conditions that find a row
    writing       INSERT, UPDATE and TRUNCATE statements
    loading       the rows of a table's initial copy
    reading       all rows of a table, column by column
    ddl           CREATE TABLE and ALTER TABLE
    sequences     sequences and counters
    row_versions  the last writer of a row

A target has these optional roles only if its database has the feature. The attribute of a missing
role is None (``target.prepared is not None`` if it exists):

    bulk          many changes of different rows, with one statement
    pipeline      many different statements, with one round trip
    prepared      prepared transactions
    origins       replication origins
    run_lock      the run lock
    cluster       the PostgreSQL cluster of the target

The stream uses shapes and values when a relation is opened, then values, matching and writing (or
bulk) for each batch. The initial copy uses ddl (if it creates the table) and loading. Both write in
a transaction of transactions, and errors translates what the driver raises.

What is not here: :mod:`subscriber.targets.generic` implements the roles of the first group with
what SQLAlchemy knows about any database. A dialect's folder (such as
:mod:`subscriber.targets.sqlite`) overrides what the dialect can do better.
:mod:`subscriber.targets.target` combines the roles to a target.
"""
