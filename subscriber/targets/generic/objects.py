"""Objects of tables in a database of which only SQLAlchemy's dialect is known: none are built."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from subscriber.schema.shape import ForeignKey
from subscriber.targets.roles.errors import Errors
from subscriber.targets.table_changes import (
    CannotBuild,
    Definition,
    FoundObjects,
    NewForeignKey,
    NewIndex,
    Statements,
    TableChange,
)
from subscriber.targets.target_table import TargetColumn, TargetTable
from subscriber.targets.translate_expression import Kind, NotKnown, Rules, kind_of, translate


class GenericObjects:
    """See :class:`~subscriber.targets.roles.objects.Objects`.

    Attributes:
        rules: how expressions differ from PostgreSQL's.
        casts: the format of a cast from text to an integer, with ``{column}``.
    """

    rules: Rules
    casts: str = "CAST({column} AS BIGINT)"

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors
        self.rules = Rules(quote=engine.dialect.identifier_preparer.quote)

    def find(self, connection: sa.Connection, table: TargetTable) -> FoundObjects:
        """See :meth:`Objects.find`."""
        del connection, table
        return FoundObjects()

    def exists(self, connection: sa.Connection, schema: str, name: str | None = None) -> bool:
        """See :meth:`Objects.exists`."""
        del connection, schema, name
        return False

    def expression(
        self,
        text: str,
        columns: Mapping[str, tuple[int, TargetColumn]],
        *,
        inexact: Collection[str] = (),
        enums: Collection[str] = (),
        loose: bool = False,
    ) -> str:
        """See :meth:`Objects.expression`."""
        written = {
            name: self._column(type_oid, column, exact=column.name not in inexact)
            for name, (type_oid, column) in columns.items()
        }
        try:
            return translate(text, written, self.rules, enums=enums, loose=loose)
        except NotKnown as unknown:
            raise CannotBuild(f"{unknown.part} is not known to mean the same in {self._errors.database}") from None

    def _column(self, type_oid: int, column: TargetColumn, *, exact: bool) -> tuple[Kind, str]:
        """The kind of the values of a column, and how they are written."""
        kind, written = kind_of(type_oid), self.quote(column.name)
        if kind == "text" and not exact:
            return "other", written
        if kind == "number" and self.is_text(column):
            return kind, self.casts.format(column=written)
        return self.other_kind(type_oid, column) if kind == "other" else kind, written

    def is_text(self, column: TargetColumn) -> bool:
        """Whether the column stores texts."""
        del column
        return False

    def other_kind(self, type_oid: int, column: TargetColumn) -> Kind:
        """The kind of a column whose type only some targets store as such."""
        del type_oid, column
        return "other"

    def default(self, text: str, type_oid: int, column: TargetColumn) -> str | None:
        """See :meth:`Objects.default`."""
        del text, type_oid, column
        return None

    def statements(
        self, connection: sa.Connection, table: TargetTable, change: TableChange, earlier: Sequence[TableChange] = ()
    ) -> Statements:
        """See :meth:`Objects.statements`."""
        del connection, table, earlier
        raise self.refusal(change)

    def removal(self, table: TargetTable, change: Definition, name: str) -> tuple[str, ...]:
        """See :meth:`Objects.removal`."""
        del table, name
        raise self.refusal(change)

    def shown(self, connection: sa.Connection, table: TargetTable, change: Definition) -> str:
        """See :meth:`Objects.shown`; a database that keeps the text of an expression."""
        del connection, table
        return "" if isinstance(change, NewIndex) else change.expression

    def same_constant(self, connection: sa.Connection, column: TargetColumn, first: str, second: str) -> bool:
        """See :meth:`Objects.same_constant`."""
        del connection, column
        return first == second

    def functions(self, connection: sa.Connection) -> Mapping[str, str]:
        """See :meth:`Objects.functions`."""
        del connection
        return {}

    def refusal(self, change: TableChange) -> CannotBuild:
        """The error for a change of a kind that is not known."""
        return CannotBuild(f"how {self._errors.database} declares {type(change).__name__[3:].lower()} is not known")

    @contextmanager
    def building(self) -> Iterator[sa.Connection]:
        """See :meth:`Objects.building`."""
        with self._errors.reporting(), self._engine.begin() as connection:
            yield connection

    def check(self, connection: sa.Connection, table: TargetTable) -> None:
        """See :meth:`Objects.check`."""
        del connection, table

    # For the dialects ---------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        """A name in the target's SQL."""
        return self._single(self._engine.dialect.identifier_preparer.quote(name))

    def _single(self, written: str) -> str:
        """A quoted name with single percent signs. SQLAlchemy doubles them for some drivers, but
        these statements have no parameters.
        """
        doubled = self._engine.dialect.paramstyle in ("format", "pyformat")
        return written.replace("%%", "%") if doubled else written

    def qualified(self, table: TargetTable) -> str:
        """A table's name in the target's SQL."""
        preparer: Any = self._engine.dialect.identifier_preparer
        return self._single(str(preparer.format_table(table.clause())))

    def quoted(self, names: Collection[str]) -> str:
        """Names, separated by commas."""
        return ", ".join(self.quote(name) for name in names)

    def plain_index(self, change: NewIndex, methods: Collection[str] = ("btree", "hash")) -> str:
        """What is said about an ordinary index, in a database other than PostgreSQL.

        Raises:
            CannotBuild: it is not an ordinary index.
        """
        index, database = change.index, self._errors.database
        if index.constraint == "exclusion":
            raise CannotBuild(f"{database} has no exclusion constraints")
        if index.method not in methods:
            raise CannotBuild(f"{database} has no {index.method} indexes")
        if not all(key.ordinary for key in index.keys):
            raise CannotBuild("it has an operator class or a collation of its own")
        if index.deferrable:
            raise CannotBuild(f"{database} checks unique keys immediately")
        if index.unique and not index.nulls_distinct:
            raise CannotBuild(f"{database} has no NULLS NOT DISTINCT")
        return f"the columns of INCLUDE are left out: {', '.join(index.include)}" if index.include else ""

    def foreign_key_clause(self, change: NewForeignKey, *, deferrable: bool) -> tuple[str, str]:
        """FOREIGN KEY …, and a note, in a database other than PostgreSQL.

        Args:
            change: the foreign key.
            deferrable: whether the database has deferrable constraints.

        Raises:
            CannotBuild: the database does not have this kind of foreign key.
        """
        key, database = change.key, self._errors.database
        self._check_foreign_key(key, deferrable=deferrable)
        clause = (
            f"FOREIGN KEY ({self.quoted(key.columns)})"
            f" REFERENCES {self.referenced(change.references)} ({self.quoted(key.referenced)})"
        )
        for event, action in (("DELETE", key.on_delete), ("UPDATE", key.on_update)):
            clause += "" if action == "NO ACTION" else f" ON {event} {action}"
        if key.deferrable:
            clause += f" DEFERRABLE INITIALLY {'DEFERRED' if key.deferred else 'IMMEDIATE'}"
        partly = key.match_full and len(key.columns) > 1
        return clause, f"MATCH FULL becomes MATCH SIMPLE: {database} supports no other" if partly else ""

    def referenced(self, table: TargetTable) -> str:
        """A table's name behind REFERENCES."""
        return self.qualified(table)

    def _check_foreign_key(self, key: ForeignKey, *, deferrable: bool) -> None:
        database = self._errors.database
        if not key.plain:
            raise CannotBuild(f"{database} enforces every foreign key, and does not support PERIOD")
        if key.set_columns:
            raise CannotBuild(f"{database} has ON DELETE {key.on_delete} for all columns only")
        if key.deferrable and not deferrable:
            raise CannotBuild(f"{database} checks foreign keys immediately, and this one is deferrable")
