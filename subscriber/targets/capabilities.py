"""What a target can do, as facts to ask for instead of names to compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The facts about one kind of database that apply and pipeline decide by.

    Attributes:
        database: its name in messages, such as "SQLite".
        postgresql_text: it parses PostgreSQL's text itself: every value is bound as text (rule C5), so
            decode may hand over every column as string.
        postgresql_sql: a psql session can be typed into it.
        restart_identity: TRUNCATE ... RESTART IDENTITY can be honoured (rule C29).
        multi_rowcount: the row count of an ``executemany`` is the sum over its rows.
        single_writer: one connection writes at a time, so loading from several gains nothing.
        run_lock: the target can tell that another runner is at work.
        lenient_foreign_keys: a foreign key may be declared before the table that it refers to exists, and is not enforced on
            our connections: only TRUNCATE asks for it (rule C30).
        stored_columns: a generated column may be declared STORED, as PostgreSQL's are, and NOT NULL.
        prepared_transactions: a transaction can be prepared, and committed or rolled back later by another connection (rule C49).
        transactional_ddl: a table can be altered within a transaction, which takes it back with everything else.
        signed_zero: a floating-point column tells the two zeros apart.
        statement_snapshots: an UPDATE or DELETE that waits for another session sees only rows that were there when it began: of what that
            session puts in their place nothing, until the next statement.
        savepoints: a part of a transaction can be taken back.
        column_case: two columns of a table may have names that differ in the case of their letters only.
        copy_format: what the blocks of :meth:`~subscriber.targets.target.Target.loader` are: ``text`` is COPY's text format,
            whole lines; ``arrow`` is an Arrow IPC stream of one record batch, every column decoded.
    """

    database: str
    postgresql_text: bool = False
    postgresql_sql: bool = False
    restart_identity: bool = False
    multi_rowcount: bool = False
    single_writer: bool = False
    run_lock: bool = False
    lenient_foreign_keys: bool = False
    stored_columns: bool = True
    prepared_transactions: bool = False
    transactional_ddl: bool = False
    signed_zero: bool = True
    statement_snapshots: bool = False
    savepoints: bool = True
    column_case: bool = False
    copy_format: Literal["text", "arrow"] = "arrow"
