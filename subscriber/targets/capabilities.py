"""The capabilities of a target, its limits and its version: facts that code asks for in place of
the database's name. :meth:`DDL.fit` judges the sizes of rows and keys.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

_DIGEST: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one kind of database; None for no limit that a table of PostgreSQL can reach.
    ``keys`` counts the primary key and unique keys. ``last_character`` is the last character of
    Unicode that a name may have, ``final_blank`` whether a name may end with a blank, and
    ``upper_case`` whether it may have upper-case letters only, and ``quotes_in_tables`` whether the
    name of a table may have a double quote.
    """

    columns: int | None = None
    keys: int | None = None
    key_columns: int | None = None
    name_length: int | None = None
    name_in_bytes: bool = False
    last_character: str = "\U0010ffff"
    final_blank: bool = True
    upper_case: bool = True
    quotes_in_tables: bool = True

    def obstacles(self, *, columns: int, keys: tuple[tuple[str, ...], ...]) -> Iterator[str]:
        """Why a table is too large, as sentences without a full stop."""
        if self.columns is not None and columns > self.columns:
            yield f"it has {columns:,} columns, and {self.columns:,} are possible"
        if self.keys is not None and len(keys) > self.keys:
            yield f"it has {len(keys):,} keys, and {self.keys:,} are possible"
        for key in keys:
            if self.key_columns is not None and len(key) > self.key_columns:
                yield f"its key ({', '.join(key)}) has {len(key):,} columns, and {self.key_columns:,} are possible"

    def obstacle_of_name(self, name: str, *, is_table: bool = False) -> str | None:
        """Why the database does not take a name; None if it does."""
        if self.name_length is not None and self._length(name) > self.name_length:
            unit = "bytes" if self.name_in_bytes else "characters"
            return f'the name "{name}" has {self._length(name):,} {unit}, and {self.name_length:,} are possible'
        if name and max(name) > self.last_character:
            return f'the name "{name}" has a character beyond U+{ord(self.last_character):04X}'
        if not self.final_blank and name.endswith(" "):
            return f'the name "{name}" ends with a blank'
        if not self.quotes_in_tables and is_table and '"' in name:
            return f"the name '{name}' has a double quote, with which the table is not found again"
        if not self.upper_case and name.isupper() and re.fullmatch(r"[A-Z0-9_$]+", name):
            return f'the name "{name}" is in upper case, as which names without quotes are stored'
        return None

    def shortened(self, name: str) -> str:
        """The name itself if it is not too long, otherwise its beginning and a digest of it."""
        if self.name_length is None or self._length(name) <= self.name_length:
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
        beginning = name
        while self._length(f"{beginning}_{digest}") > self.name_length:
            beginning = beginning[:-1]
        return f"{beginning}_{digest}"

    def _length(self, name: str) -> int:
        return len(name.encode() if self.name_in_bytes else name)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The facts about one kind of database on which apply and pipeline depend.

    Attributes:
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
        single_writer: only one connection can write at a time, so loading through several is not
            faster.
        row_locks: several transactions can write to different rows of a table at a time; a
            change that meets one of another transaction waits until that one has ended.
        unenforced_foreign_keys: a new table declares its foreign keys. The referenced table may be
            created later. The subscriber's connections do not enforce foreign keys; only TRUNCATE
            checks them (rule C30).
        stored_columns: a generated column may be declared STORED, as in PostgreSQL, and NOT NULL.
        transactional_ddl: a table can be altered within a transaction, and a rollback undoes this.
        signed_zero: a floating-point column distinguishes 0 and -0.
        statement_snapshots: an UPDATE or DELETE that waits for another session sees only rows that
            existed when the statement began, and not those that the other session inserts in their
            place; the next statement sees them.
        savepoints: a part of a transaction can be rolled back.
        column_case: the names of two columns of a table may differ only in the case of their
            letters.
        table_case: the names of two tables may differ only in the case of ASCII letters, or this
            depends on the server.
        equal_key_types: a foreign key needs the same type on both sides. A new table gets it.
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
    row_locks: bool = False
    unenforced_foreign_keys: bool = False
    stored_columns: bool = True
    transactional_ddl: bool = False
    signed_zero: bool = True
    statement_snapshots: bool = False
    savepoints: bool = True
    column_case: bool = False
    table_case: bool = True
    equal_key_types: bool = False
    parallel_ddl: bool = False
    limits: Limits = field(default_factory=Limits)


# Server facts ----------------------------------------------------------------------------------

FactValue = bool | int | str | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was found out about a database, and how: by a probe, from SQLAlchemy's
    dialect, or because a package has registered it. None is not known, or not there.
    """

    name: str
    value: FactValue
    found: str

    @property
    def shown(self) -> str:
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        return "none" if self.value is None else str(self.value)


@dataclass(frozen=True, slots=True)
class Limit:
    """The setting of a server that is a limit, its value, and the statement that raises it."""

    setting: str
    value: int
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """The database's version if it is known, the largest value in bytes that the server accepts
    from a client, and the prepared transactions that it can have at once; None where no setting
    limits it. ``facts`` are those of a database without a folder in :mod:`subscriber.targets`.
    """

    version: str | None = None
    largest_value: Limit | None = None
    prepared_transactions: Limit | None = None
    facts: tuple[Fact, ...] = ()


def read_version(connection: sa.Connection) -> TargetFacts:
    version = connection.dialect.server_version_info
    return TargetFacts(version=None if version is None else ".".join(map(str, version)))
