"""What a target can do, as facts to ask for instead of names to compare."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The facts about one kind of database that apply and pipeline decide by.

    Attributes:
        database: its name in messages, such as "SQLite".
        postgresql_text: it parses PostgreSQL's text itself: every value is bound as text (rule C5),
            so decode may hand over every column as string.
        postgresql_types: its columns have PostgreSQL's types: a cast to text is PostgreSQL's output
            function, and COPY writes their values.
        postgresql_expressions: its SQL has PostgreSQL's expressions: a default is declared as it
            is, even a constant.
        standbys: a commit can wait for standbys (``synchronous_commit = remote_apply``).
        empty_tables: a table may have no columns.
        multi_rowcount: the row count of an ``executemany`` is the sum over its rows.
        single_writer: one connection writes at a time, so loading from several gains nothing.
        unenforced_foreign_keys: a new table declares its foreign keys. The table that one refers to
            may come later, and none is enforced on our connections; only TRUNCATE asks for them
            (rule C30).
        stored_columns: a generated column may be declared STORED, as PostgreSQL's are, and NOT
            NULL.
        transactional_ddl: a table can be altered within a transaction, which takes it back with
            everything else.
        signed_zero: a floating-point column tells the two zeros apart.
        statement_snapshots: an UPDATE or DELETE that waits for another session sees only rows that
            were there when it began: of what that session puts in their place nothing, until the
            next statement.
        savepoints: a part of a transaction can be taken back.
        column_case: two columns of a table may have names that differ in the case of their letters
            only.
    """

    database: str
    postgresql_text: bool = False
    postgresql_types: bool = False
    postgresql_expressions: bool = False
    standbys: bool = False
    empty_tables: bool = False
    multi_rowcount: bool = False
    single_writer: bool = False
    unenforced_foreign_keys: bool = False
    stored_columns: bool = True
    transactional_ddl: bool = False
    signed_zero: bool = True
    statement_snapshots: bool = False
    savepoints: bool = True
    column_case: bool = False
