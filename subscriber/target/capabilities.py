"""What a target can do, as facts to ask for instead of names to compare."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The facts about one kind of database that apply and pipeline decide by.

    Attributes:
        database: its name in messages, such as "SQLite".
        postgresql_text: it parses PostgreSQL's text itself: every value is bound as text (rule C5), so
            decode may hand over every column as string.
        schemas: a table's name has a schema part of its own.
        truncate: TRUNCATE exists and is part of the transaction (rule H4); else DELETE does its work.
        restart_identity: TRUNCATE ... RESTART IDENTITY can be honoured (rule C29).
        row_locator: tables without a key can be searched for exactly one row (rule C16).
        multi_rowcount: the row count of an ``executemany`` is the sum over its rows.
        single_writer: one connection writes at a time, so loading from several gains nothing.
        transactional_ddl: DDL can be rolled back.
        run_lock: the target can tell that another runner is at work.
        max_parameters: most bound parameters of one statement.
    """

    database: str
    postgresql_text: bool = False
    schemas: bool = True
    truncate: bool = False
    restart_identity: bool = False
    row_locator: bool = False
    multi_rowcount: bool = False
    single_writer: bool = False
    transactional_ddl: bool = False
    run_lock: bool = False
    max_parameters: int = 999
