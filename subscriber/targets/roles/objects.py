"""What a table has beside its columns and keys: indexes, constraints, defaults, comments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

from subscriber.targets.table_changes import Definition, FoundObjects, Statements, TableChange
from subscriber.targets.target_table import TargetColumn, TargetTable


class Objects(Protocol):
    """Reads the objects of tables that exist, and writes the DDL that adds others."""

    def quote(self, name: str) -> str:
        """A name in the target's SQL."""
        ...

    def find(self, connection: sa.Connection, table: TargetTable) -> FoundObjects:
        """What the table has.

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def exists(self, connection: sa.Connection, schema: str, name: str | None = None) -> bool:
        """Whether there is a type, sequence or table of this name, in a target that has
        PostgreSQL's types; without a name, whether there is such a schema.
        """
        ...

    def expression(
        self,
        text: str,
        columns: Mapping[str, tuple[int, TargetColumn]],
        *,
        inexact: Collection[str] = (),
        enums: Collection[str] = (),
        loose: bool = False,
    ) -> str:
        """A PostgreSQL expression in the target's SQL.

        Args:
            text: the expression as ``pg_get_expr`` prints it with an empty search_path.
            columns: for each name in the expression, its type OID and the target's column.
            inexact: the columns of texts that do not compare exactly.
            enums: the enums whose values are stored as texts, as ``format_type`` writes them.
            loose: the expression is the key of an index that is not unique.

        Raises:
            CannotBuild: the expression is not known to mean the same in the target.
        """
        ...

    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        """A default that depends on the time or on chance, in the target's SQL.

        None if the expression has no such value, or if the target has none for this column.

        Args:
            text: the expression as ``pg_get_expr`` prints it.
            type_oid: the column's type at the publisher.
            column: the column.
        """
        ...

    def statements(
        self, connection: sa.Connection, table: TargetTable, change: TableChange, earlier: Sequence[TableChange] = ()
    ) -> Statements:
        """The statements that make a change.

        Args:
            connection: a connection to the target.
            table: the table.
            change: the change.
            earlier: the changes that a script has made before. Without them, the statements are for
                the table as it is now.

        Raises:
            CannotBuild: the target cannot have this.
        """
        ...

    def removal(self, table: TargetTable, change: Definition, name: str) -> tuple[str, ...]:
        """The statements that remove what a change is to replace; none for a default.

        Args:
            table: the table.
            change: the index, CHECK constraint or generated column that comes in its place.
            name: the present name of what is replaced.

        Raises:
            CannotBuild: the target cannot remove it.
        """
        ...

    def shown(self, connection: sa.Connection, table: TargetTable, change: Definition) -> str:
        """The definition of an object as :meth:`find` would return it after the change. Nothing is
        changed.

        Raises:
            CannotBuild: the target cannot have this.
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """Whether two constants of the target's SQL are the same value of a column.

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def functions(self, connection: sa.Connection) -> Mapping[str, str]:
        """The user-defined functions of a target that has PostgreSQL's expressions: the definition
        of each by its name with the types of its arguments.
        """
        ...

    def building(self) -> AbstractContextManager[sa.Connection]:
        """A transaction for DDL, in which the target checks existing rows, as for its users.

        Raises:
            SubscriberError: as translated by :meth:`Errors.translate`.
        """
        ...

    def check(self, connection: sa.Connection, table: TargetTable) -> None:
        """Check the rows of a table that was written again, before the transaction commits.

        Raises:
            ConflictError: a row violates a foreign key.
        """
        ...
