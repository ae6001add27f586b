"""Statements in the form in which SQLAlchemy Core writes them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from subscriber.errors import ConflictError, TargetRelationError
from subscriber.targets.roles.errors import Errors
from subscriber.targets.roles.writing import Written
from subscriber.targets.target_table import TargetTable


class GenericWriting:
    """See :class:`~subscriber.targets.roles.writing.Writing`."""

    def __init__(self, errors: Errors) -> None:
        self._errors = errors

    def or_fail(self, table: TargetTable, statement: Written) -> Written:
        """See :meth:`Writing.or_fail`."""
        del table  # a violated constraint always raises an error
        return statement

    def override_identity(self, insert: str) -> str:
        """See :meth:`Writing.override_identity`."""
        return insert

    def may_suppress(self, table: TargetTable) -> bool:
        """See :meth:`Writing.may_suppress`."""
        del table  # a trigger cannot suppress a change
        return False

    def truncate(self, connection: sa.Connection, tables: Sequence[TargetTable], *, restart_identity: bool) -> None:
        """See :meth:`Writing.truncate`; executed as DELETE.

        How to restart identities is not known. The database enforces foreign keys.

        Raises:
            TargetRelationError: 0A000, ``restart_identity`` is requested.
        """
        if restart_identity:
            raise TargetRelationError(
                f"{self._errors.database} cannot restart identities on TRUNCATE",
                sqlstate="0A000",
                hint="Truncate at the publisher with CONTINUE IDENTITY.",
            )
        delete_rows(connection, tables)

    def delete_acts(self, connection: sa.Connection, table: TargetTable) -> bool:
        """See :meth:`Writing.delete_acts`."""
        del connection, table  # foreign keys are off, or they only forbid
        return False

    def delete_all(self, connection: sa.Connection, table: TargetTable) -> None:
        """See :meth:`Writing.delete_all`."""
        try:
            with self._errors.reporting():
                delete_rows(connection, [table])
        except ConflictError as error:
            raise named(error, table) from None


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


def delete_rows(connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
    """Delete all rows with DELETE, which can be rolled back in every database."""
    for table in tables:
        connection.execute(sa.delete(table.clause()))
