"""Statements for one row: the conditions that find it, and the dialect's INSERT, UPDATE and
TRUNCATE. Here they are SQL's equality, and what SQLAlchemy Core writes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from subscriber.base.errors import ConflictError, TargetRelationError
from subscriber.postgres.types.equality import Equality
from subscriber.postgres.types.registry import equality_of
from subscriber.targets.base.errors import Errors
from subscriber.targets.target_table import LeafRouting, TargetColumn, TargetTable

Change = TypeVar("Change", sa.Update, sa.Delete)
Touching = TypeVar("Touching", sa.Update, sa.Delete, sa.Select[Any])
Written = TypeVar("Written", sa.Insert, sa.Update)


TOLD: Final = ("subscriber_deletedat", "subscriber_transactionid", "subscriber_origin", "subscriber_place")
"""When a row was deleted, by which transaction, and by which origin; and its place among those of
the same time.
"""
NEW_ROUND: Final = -1
RECORDED: Final = sa.Table(
    "subscriber_deleted_row",
    sa.MetaData(),
    sa.Column("deletedid", sa.BigInteger),
    sa.Column("relation", sa.String),
    sa.Column("round", sa.BigInteger),
    sa.Column("transactionid", sa.BigInteger),
    sa.Column("origin", sa.String),
)
"""The catalog's table of deleted rows, which :mod:`subscriber.catalog.own_tables` describes."""


class DeletedRows(ABC):
    """Triggers that record every deleted row of a table, whoever deletes it, and every row whose
    key is changed, in the transaction of the change; and the recorded rows of a table.

    They write to the catalog's table ``subscriber_deleted_row``, with :data:`NEW_ROUND` and without
    an origin. Here a transaction gives its rows their origin when it ends. It recognizes them by
    :data:`NEW_ROUND` and its number, since no other session sees them. A number may be that of an
    ended session (the number of SQLite is always 0), so a transaction first moves all committed
    rows of the round that have its number.
    """

    transaction: sa.ColumnElement[int]
    """The number that the triggers give to the transaction in progress."""

    @abstractmethod
    def are_recorded(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Whether a table has the triggers."""

    @abstractmethod
    def record(self, connection: sa.Connection, table: TargetTable, relation: str) -> None:
        """Create the triggers of a table that has none; ``relation`` is stored with its rows.
        NotSupportedError if rows of the table can be deleted without them.
        """

    @abstractmethod
    def forget(self, connection: sa.Connection, table: TargetTable) -> None:
        """Drop the triggers of a table, if it has them."""

    @abstractmethod
    def rows(self, connection: sa.Connection, table: TargetTable, relation: str) -> sa.Subquery:
        """The recorded rows: the columns by which a row is found, under their names, and
        :data:`TOLD`. They compare as the table's own columns.
        """

    @contextmanager
    def deleted_by(self, connection: sa.Connection, origin: str | None) -> Iterator[None]:
        """Rows that are deleted inside the block, before the transaction ends, get this origin. If
        it is None, they are not recorded.
        """
        own = (RECORDED.c.round == NEW_ROUND) & (RECORDED.c.transactionid == self.transaction)
        connection.execute(sa.update(RECORDED).where(own).values(round=0))
        yield
        if origin is None:
            connection.execute(sa.delete(RECORDED).where(own))
        else:
            connection.execute(sa.update(RECORDED).where(own).values(round=0, origin=origin))

    def move(self, connection: sa.Connection, rows: sa.ColumnElement[bool], round_: int | None) -> None:
        """Move the committed ``rows`` to a round, or delete them (None), without waiting for
        transactions that delete rows now.
        """
        found = sa.delete(RECORDED) if round_ is None else sa.update(RECORDED).values(round=round_)
        connection.execute(found.where(rows))

    def last(
        self, connection: sa.Connection, rows: sa.Subquery, condition: sa.ColumnElement[bool]
    ) -> Sequence[Any] | None:
        """:data:`TOLD` of the last deletion of a row that ``condition`` finds in :meth:`rows`: of
        those that are committed, and those of this transaction.
        """
        told = [rows.c[name] for name in TOLD]
        query = sa.select(*told).where(condition).order_by(told[0].desc(), told[-1].desc())
        return connection.execute(query.limit(1)).first()


def found_by(table: TargetTable) -> tuple[str, ...]:
    """The columns by which rows are found: those of the key, or all."""
    return table.key or tuple(column.name for column in table.columns if not column.generated)


class Matching:
    """Compares stored values with sent values, and limits which rows a statement affects."""

    def found_as_written(self, type_oid: int, table: TargetTable, column: TargetColumn) -> bool:
        """Whether a row found by the value of a key column already stores exactly what an UPDATE to
        it would write, so that SET can omit the column: equal values are stored identically, and no
        trigger depends on SET. Writing a key takes time, and in DuckDB changes another row.
        """
        return False

    def tells_apart(self, type_oid: int, column: TargetColumn) -> bool:
        """Whether two values of a type, of which equal values have the same text, are different in
        a column of the key if their texts differ. False if this is not known: a column of another
        type may convert ``1`` and ``01`` to the same value.
        """
        return False

    def equality(self, type_oid: int, column: TargetColumn) -> Equality:
        """When a value of a PostgreSQL type is equal to a value stored in ``column`` (rules C14,
        C17); :data:`~subscriber.postgres.types.family.EXACT` if the target compares as PostgreSQL
        does.
        """
        return equality_of(type_oid)

    def comparable(self, column: TargetColumn, clause: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        """``clause`` in a form that equals a bound value only if they are equal in PostgreSQL."""
        return clause

    def equals(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition that ``clause`` equals a bound value by the equality of the key."""
        return clause == value

    def finds(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """How a key finds a row: :meth:`equals`, but PostgreSQL must not distinguish the values."""
        return self.equals(column, clause, value)

    def is_same(
        self, column: TargetColumn, clause: sa.ColumnElement[Any], value: sa.ColumnElement[Any]
    ) -> sa.ColumnElement[bool]:
        """The condition for a column when a whole row is compared (rule C14): NULL equals NULL."""
        return self.comparable(column, clause).is_not_distinct_from(value)

    def own_rows(self, table: TargetTable, statement: Touching, clause: sa.FromClause) -> Touching:
        """The statement limited to rows of the table itself, without tables that inherit."""
        return statement

    def routing(self, table: TargetTable) -> LeafRouting | None:
        """How to find a row's partition if only the partitions have keys (rule C26)."""
        return None

    def change_first(self, statement: Change) -> Change | None:
        """An UPDATE or DELETE of one of the rows that it finds; None if SQL cannot say so."""
        return None


class Writing:
    """Adapts statements to the target's SQL so that they act as in PostgreSQL's apply worker."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors

    def or_fail(self, table: TargetTable, statement: Written) -> Written:
        """An INSERT or UPDATE that fails at a constraint, whatever else the table declares."""
        return statement

    def may_suppress(self, table: TargetTable) -> bool:
        """Whether a trigger may leave a row unchanged without an error, as in PostgreSQL."""
        return False

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """Delete all rows of ``tables``, always with RESTRICT (rules C29, C30). Here by DELETE
        without WHERE, which can be rolled back in every database. 0A000 if a foreign key of another
        table references one of them (ConflictError), or the identity cannot be restarted
        (TargetRelationError).
        """
        with self._errors.reporting():
            for table in tables:
                check_references(table, self.referencing(connection, table, tables))
            if restart_identity:
                self.restart_identities(connection, tables)
            delete_rows(connection, tables)

    def referencing(self, connection: sa.Connection, table: TargetTable, truncated: Sequence[TargetTable]) -> set[str]:
        """The tables whose foreign keys reference a table, without those that are truncated too.
        Here the database enforces foreign keys itself.
        """
        return set()

    def restart_identities(self, connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
        raise TargetRelationError(
            f"{self._errors.database} cannot restart identities on TRUNCATE",
            sqlstate="0A000",
            hint="Truncate at the publisher with CONTINUE IDENTITY.",
        )

    def delete_all(self, connection: sa.Connection, table: TargetTable) -> None:
        """Delete all rows of ``table``, not of tables that inherit, so that they can be rolled
        back. Foreign keys are as in a replicated DELETE: where the session does not enforce them,
        rows that refer to the deleted ones stay. ConflictError 23503: one forbids it, or would
        change rows of its table. TargetRelationError 55000: a trigger has left rows.
        """
        try:
            with self._errors.reporting():
                delete_rows(connection, [table])
        except ConflictError as error:
            raise named(error, table) from None

    def delete_acts(self, connection: sa.Connection, table: TargetTable) -> bool:
        """Whether a foreign key would act in this session when a row is deleted as replicated."""
        return False

    def override_identity(self, insert: str) -> str:
        """The INSERT statement in a form that can also write identity columns."""
        return insert

    def replacement_error(self, connection: sa.Connection, table: TargetTable) -> TargetRelationError | None:
        """The error for an UPDATE of an identity column that SQL cannot update (the table
        :attr:`~TargetTable.has_identity_always`), where a DELETE and an INSERT of the row would not
        have the same effect; None where they have.
        """
        return None


def named(error: ConflictError, table: TargetTable) -> ConflictError:
    """The error of a DELETE of all rows, which says that a foreign key forbids it if that is so."""
    return referenced(table, error.detail) if error.sqlstate == "23503" else error


def referenced(table: TargetTable, detail: str | None) -> ConflictError:
    """The error for rows that cannot be replaced, because rows of another table refer to them."""
    return ConflictError(
        f'the rows of table "{table.name}" cannot be replaced, because a foreign key of another table refers to them',
        sqlstate="23503",
        detail=detail,
        hint="Drop the foreign key in the target until the table is copied. The table keeps its rows until then.",
    )


def check_references(table: TargetTable, referencing: set[str]) -> None:
    if referencing:
        raise ConflictError(
            "cannot truncate a table referenced in a foreign key constraint",
            sqlstate="0A000",
            detail=f'Table "{min(referencing)}" references "{table.name}".',
            hint="Truncate the referencing table at the publisher in the same command.",
        )


def delete_rows(connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
    for table in tables:
        connection.execute(sa.delete(table.clause()))
