"""Statements in the form in which SQLAlchemy Core writes them."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from subscriber.errors import TargetRelationError
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


def delete_rows(connection: sa.Connection, tables: Sequence[TargetTable]) -> None:
    """Delete all rows with DELETE, which can be rolled back in every database."""
    for table in tables:
        connection.execute(sa.delete(table.clause()))
