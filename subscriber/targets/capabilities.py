"""The capabilities of a target: facts that code asks for in place of the database's name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The facts about one kind of database on which apply and pipeline depend.

    Attributes:
        database: the database's name in messages, such as "SQLite".
        postgresql_text: the target parses PostgreSQL's text itself. Every value is bound as text
            (rule C5), so decode may return every column as strings.
        postgresql_types: the target's columns have PostgreSQL's types: a cast to text is
            PostgreSQL's output function, and COPY writes their values.
        postgresql_expressions: the target's SQL has PostgreSQL's expressions: a default is declared
            unchanged, even if it is a constant.
        standbys: a commit can wait for standbys (``synchronous_commit = remote_apply``).
        empty_tables: a table may have no columns.
        multi_rowcount: the row count of an ``executemany`` is the sum over its rows.
        driver_cursor: the driver's cursor reports the row count of its last statement, so a
            statement can be executed without SQLAlchemy's context.
        single_writer: only one connection can write at a time, so loading through several
            connections is not faster.
        unenforced_foreign_keys: a new table declares its foreign keys. The referenced table may be
            created later. The subscriber's connections do not enforce foreign keys; only TRUNCATE
            checks them (rule C30).
        stored_columns: a generated column may be declared STORED, as in PostgreSQL, and NOT NULL.
        transactional_ddl: a table can be altered within a transaction, and a rollback undoes this.
        signed_zero: a floating-point column distinguishes 0 and -0.
        statement_snapshots: an UPDATE or DELETE that waits for another session sees only rows that
            existed when the statement began. It does not see rows that the other session inserts in
            their place; the next statement sees them.
        savepoints: a part of a transaction can be rolled back.
        column_case: the names of two columns of a table may differ only in the case of their
            letters.
        table_case: the names of two tables may differ only in the case of ASCII letters, or this
            depends on the server.
        parallel_ddl: objects of different tables can be built at the same time.
    """

    database: str
    postgresql_text: bool = False
    postgresql_types: bool = False
    postgresql_expressions: bool = False
    standbys: bool = False
    empty_tables: bool = False
    multi_rowcount: bool = False
    driver_cursor: bool = False
    single_writer: bool = False
    unenforced_foreign_keys: bool = False
    stored_columns: bool = True
    transactional_ddl: bool = False
    signed_zero: bool = True
    statement_snapshots: bool = False
    savepoints: bool = True
    column_case: bool = False
    table_case: bool = True
    parallel_ddl: bool = False
